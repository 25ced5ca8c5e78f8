"""Small groups in which everything that can happen is tried."""
