"""Stability rounds in groups of any size (STAB §5): the network, the hosts and what they cost.

`round_scenario` says what can be set, `world.run` runs it over a `fabric` and gives an `outcome`.
"""
