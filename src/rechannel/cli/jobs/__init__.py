"""Commands that watch or change one job."""
