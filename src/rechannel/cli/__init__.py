"""The command line: one file per command; `inspect` reads state directories for them."""

from __future__ import annotations

import sys

from rechannel.cli.app import execute

__all__ = ["execute", "main"]


def main() -> None:
    """Run the command line of this process and end it with its exit code."""
    code = execute(sys.argv[1:])
    _stop_spark()
    sys.exit(code)


def _stop_spark() -> None:
    """Stop a session that a command or a user's file made: its workers then end in silence."""
    if "pyspark.sql" in sys.modules:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()
