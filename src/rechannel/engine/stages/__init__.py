"""The seam between the loop and what executes stages; stages in this process."""
