"""State that a user's function keeps per key, its timers, and deduplication."""
