"""Operators of two inputs: joins, as-of joins, cogroups, look-ups in a table."""
