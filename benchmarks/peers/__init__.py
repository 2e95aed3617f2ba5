"""The same work in plain Spark Structured Streaming, as a good Spark engineer would write it."""
