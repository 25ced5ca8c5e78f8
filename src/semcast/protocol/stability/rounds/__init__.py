"""Stability by rounds: the five protocols of STAB."""
