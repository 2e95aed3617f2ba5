"""A profile as values, pictures and a page."""
