"""Insight: metrics, telemetry, logs, events, recordings and the doctor's checks."""
