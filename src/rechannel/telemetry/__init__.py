"""What a running job tells about itself: one stream of typed events, and its readers."""
