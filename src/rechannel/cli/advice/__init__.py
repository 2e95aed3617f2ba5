"""Advice on how much a stream needs, as text and as JSON."""
