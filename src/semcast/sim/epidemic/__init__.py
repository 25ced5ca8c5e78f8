"""Gossip with semantic purging, simulated (PSRM §4): the paper's setting, and any other.

`gossip_scenario` says what can be set, `world.run` runs members of the real protocol and gives an
`outcome`; `search` finds the largest rate that keeps atomicity.
"""
