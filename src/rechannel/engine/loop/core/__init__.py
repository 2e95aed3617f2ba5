"""The loop of timesteps: what it decides (pure), and the driver that carries that out."""
