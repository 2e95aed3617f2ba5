"""A year of real flights, replayed: what `rechannel demo` runs."""
