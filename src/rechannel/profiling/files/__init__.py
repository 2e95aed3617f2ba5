"""Traces in files: the table form, and SnailTrail's records."""
