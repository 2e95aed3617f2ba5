"""The Yahoo streaming benchmark: views of advertisements, counted per campaign and window."""
