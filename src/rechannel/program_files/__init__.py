"""Python files that make a job: imported when a process starts, and beside the program that a process runs."""
