"""Stability by gossip (SRM §5.3)."""
