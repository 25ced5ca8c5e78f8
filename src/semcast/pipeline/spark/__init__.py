"""Spark itself: sessions, how far a job is, and what went wrong with it, in one line."""
