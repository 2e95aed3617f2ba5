"""The metrics of a job, defined once: Prometheus and OpenTelemetry show the same ones. Pure."""
