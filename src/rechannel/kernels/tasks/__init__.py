"""The tasks themselves: source tasks, stateful tasks, bulk load; what they emit, store, measure and report."""
