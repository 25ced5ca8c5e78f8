"""Stability and safety detection: who has which messages? One interface, several protocols."""
