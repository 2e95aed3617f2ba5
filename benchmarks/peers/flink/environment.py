"""Flink's own virtual environment."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.environments import beside, installed, python_of

ENVIRONMENT = beside("flink")


def home(version: str) -> Path:
    """Where Flink's ``bin`` and ``lib`` are; installs ``apache-flink==version`` (half a gigabyte) if need be."""
    installed(ENVIRONMENT, f"apache-flink=={version}")
    (found,) = ENVIRONMENT.glob("lib/python*/site-packages/pyflink")
    return found


def python() -> Path:
    """Its interpreter."""
    return python_of(ENVIRONMENT)
