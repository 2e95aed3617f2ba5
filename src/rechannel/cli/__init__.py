"""The command line: one file per command; `inspect` reads state directories for them."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from io import TextIOWrapper
from typing import Any

from rechannel.cli.app import execute

__all__ = ["execute", "main"]


UNFORESEEN = 3
"""Exit code after a traceback: an unexpected error."""

SPARK_SECONDS = 20.0
"""How long Spark may take to end. After that the process ends without it, and Spark with the process."""


def main() -> None:
    """Run the command line of this process and end it with its exit code."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error does, whatever it is
    try:
        code = execute(sys.argv[1:])
    except Exception:
        traceback.print_exc()
        code = UNFORESEEN
    hangs = _stop_spark()
    if hangs or (code and _lingers()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _lingers() -> bool:
    """Whether a thread is left that Python would wait for, possibly forever."""
    threads = (t for t in threading.enumerate() if t is not threading.main_thread())
    return any(not thread.daemon for thread in threads)


def _stop_spark() -> bool:
    """Stop a session that a command or a user's file made, so that its workers end without messages.

    Returns whether it has not ended in time.
    """
    if "pyspark.sql" not in sys.modules:
        return False
    from pyspark.sql import SparkSession

    session: Any = SparkSession.getActiveSession()
    if session is None:
        return False
    ending = threading.Thread(target=session.stop, name="rechannel-end", daemon=True)
    ending.start()
    ending.join(SPARK_SECONDS)
    return ending.is_alive()
