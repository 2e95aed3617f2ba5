"""Runs dataflows in timesteps: plan, schedule, journal, loop."""
