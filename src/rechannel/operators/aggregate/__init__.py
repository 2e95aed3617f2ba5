"""Aggregates and reductions of all rows of a key."""
