"""Federations and their graphs, simulated (PROP §4).

federation_scenario.py  what can be set of a federation that runs
world.py                runs sites of the real protocols, and gives an outcome
counting.py             counts messages as the paper does
graph_scenario.py       which graphs of random groups are drawn and measured, and how often
grids.py                random groups in; depth, extra nodes and loads out, with their precision
loads.py                what the other two protocols load on a site
winners.py              which protocol is best where
"""
