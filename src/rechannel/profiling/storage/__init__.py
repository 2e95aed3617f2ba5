"""Rows and cells that may not fit into memory."""
