"""The host: one thread, one lock and one wait for all groups of a process; and who waits when."""
