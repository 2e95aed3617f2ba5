"""State that is read while the job runs."""
