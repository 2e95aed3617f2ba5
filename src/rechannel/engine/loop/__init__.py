"""The timestep loop: decide, run, commit, publish."""
