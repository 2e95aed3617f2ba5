"""Checks of a whole dataflow before it starts."""
