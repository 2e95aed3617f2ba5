"""A trace, its windows, paths and findings: pure functions of values."""
