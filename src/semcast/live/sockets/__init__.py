"""Sockets: addresses, transports, and datagrams through them. Knows nothing of members."""
