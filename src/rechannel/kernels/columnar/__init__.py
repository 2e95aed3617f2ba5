"""Vectorised algebra on Arrow columns: sort, group, reduce, add exactly. Knows no operator and no file."""
