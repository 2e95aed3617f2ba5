"""Rows on their way between tasks: partition, combine, pack, receive in a fixed order; watermarks travel with them."""
