"""User functions in tasks: rows as Python values, resources, errors with the user's own traceback, dead letters."""
