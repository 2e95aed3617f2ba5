"""Segments: files of rows sorted by hash, their layout and checksums."""
