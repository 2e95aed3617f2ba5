"""The page of a job: its files, and the routes that answer with them."""
