"""Changes of a running stream as values: what to change, how gently, and in which steps. Pure."""
