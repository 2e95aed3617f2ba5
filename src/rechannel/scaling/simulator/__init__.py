"""A simulator: dataflows under a load on two kinds of engine, and policies that scale them. Deterministic."""
