"""Measures traffic: who replaces whom how far back, how often, how fast, how large.

`kernel` counts one block of rows, `partials` runs it on all of them, `totals` puts the counts of
blocks together, `summary` turns them into figures and `run` is the whole of it. Nothing is imported
here.
"""
