"""Spark sessions that suit timesteps, and what a session can give."""
