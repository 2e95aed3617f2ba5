"""Small algebra: hashes, hash space, routing, configuration."""
