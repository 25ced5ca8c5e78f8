"""The real world: the same protocol code over real sockets.

`sockets` sends and receives datagrams, `host` has the threads, `meeting` finds out who is in the
group, and `insight` is for operators. What to send, to whom and when, `semcast.protocol` decides.
"""
