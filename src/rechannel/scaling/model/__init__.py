"""The model: from what was measured in a window to the parallelism that a load needs. Pure."""
