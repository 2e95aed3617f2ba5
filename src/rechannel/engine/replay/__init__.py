"""Committed timesteps again, in a sandbox."""
