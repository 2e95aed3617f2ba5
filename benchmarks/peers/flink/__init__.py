"""Apache Flink, from PyPI, in an environment of its own."""
