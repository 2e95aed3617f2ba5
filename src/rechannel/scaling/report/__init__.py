"""Advice as a page with pictures."""
