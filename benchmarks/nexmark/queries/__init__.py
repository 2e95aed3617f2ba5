"""Queries of NEXMark, one per file."""
