"""A simulator: dataflows under a load, and policies that scale them. Deterministic."""
