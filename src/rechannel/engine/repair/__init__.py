"""What can be wrong with a state directory, and what can be done about it."""
