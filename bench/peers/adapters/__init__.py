"""One file for each peer: how it is opened, sends and receives, as its users would do it.

The peers' libraries live in an environment of their own, so an adapter imports them when it opens
an end, never at the top: the harness reads these files where nothing of that is installed.
"""
