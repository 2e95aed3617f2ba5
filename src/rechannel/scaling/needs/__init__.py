"""What a stream needs and what its controllers have decided, as values to be shown."""
