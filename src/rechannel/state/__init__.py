"""Segments, manifest, merge plan, stores."""
