"""Random cases: drawn from a seed, run, judged, and shrunk if they fail."""
