"""PostgreSQL as a sink: every timestep is one transaction."""
