"""The propagation graph (PROP): another kind of member, a site in overlapping groups.

graph.py      who passes messages on to whom
generator.py  groups in, a graph out
rules.py      what makes one graph better than another
choices.py    which site comes next in a tree that grows
field.py      what is left of the groups meanwhile, and which sites still hang together
siblings.py   load for depth: sites that pass messages on for their siblings
federated.py  what worlds drive: a machine that sends to several groups
link.py       numbered records between two sites, in order and without gaps
lanes.py      the three ways of a link, each with numbers of its own
"""
