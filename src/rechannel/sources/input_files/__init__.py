"""Input files: which there are, which have been read, and how."""
