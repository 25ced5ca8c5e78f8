"""The two-phase protocol of Birman and Joseph, to compare with (PROP §2)."""
