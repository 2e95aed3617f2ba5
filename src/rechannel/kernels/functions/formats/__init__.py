"""Formats of records: how the bytes of one column become columns. A format is a folder (or a file) here."""
