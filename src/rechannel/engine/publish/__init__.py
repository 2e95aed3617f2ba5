"""Sinks: staged before a commit, published after it."""
