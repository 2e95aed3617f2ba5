"""Stores: where bytes are kept, and what goes wrong there."""
