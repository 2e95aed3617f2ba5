"""Whose fault an error is, when to try again, and how a job ends."""
