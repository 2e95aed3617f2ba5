"""Telemetry of a Rechannel job as a trace."""
