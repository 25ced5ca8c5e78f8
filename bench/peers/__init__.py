"""`python -m bench.peers`: semcast beside its peers, in one run on one machine.

One sender and two receivers in three processes, the same work for everybody. The harness
(`plan`, `trial`, `sending`, `receiving`) knows nothing of any peer, an adapter (`adapters/`)
nothing of the workloads; `api` is all that they share. See docs/design/bench-peers.md.
"""
