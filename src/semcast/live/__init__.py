"""The real world: the same protocol code over real sockets.

Datagrams go out and come in here (`transport`); `probe` and `diagnosis` find out what the network
of this machine can do. Nothing here decides what to send, to whom or when: that is
`semcast.protocol`.
"""
