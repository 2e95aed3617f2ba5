"""Metrics and traces of a job for OpenTelemetry, by its public API. Needs the extra `otel`."""
