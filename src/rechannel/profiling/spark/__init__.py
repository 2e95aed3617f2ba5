"""Spark: event logs, and running sessions, as traces."""
