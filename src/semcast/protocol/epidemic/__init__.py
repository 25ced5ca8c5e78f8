"""Gossip with semantic purging (PSRM): another kind of member, for groups too large to know."""
