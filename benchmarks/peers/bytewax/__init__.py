"""Bytewax, an engine of its own (Timely in Rust, operators in Python)."""
