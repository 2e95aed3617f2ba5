"""Advice for applications of Spark, from their event logs."""
