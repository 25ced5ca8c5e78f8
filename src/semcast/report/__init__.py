"""Figures and pages: what was found out, for people to look at. Nothing is imported here."""
