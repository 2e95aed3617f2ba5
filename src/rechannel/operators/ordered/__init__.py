"""Operators that follow the order of rows: event-time sort, running functions, ranks."""
