"""Sorted runs of state: open, filter, look up, merge, scan, fetch ahead."""
