"""Runs controllers beside the driver: callbacks in a thread of their own, what they decide in the journal."""
