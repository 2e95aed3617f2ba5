"""What a user calls: readers, streams, keyed and windowed streams, writers."""
