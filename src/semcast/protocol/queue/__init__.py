"""The purging buffer and what it is made of."""
