"""A Spark session whose JVM keeps what it has to say out of the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import rechannel as rc
from rechannel.errors import RechannelError, SessionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TAIL = 2000


@contextmanager
def quiet_session(log: Path) -> Iterator[SparkSession]:
    """A session on all cores, stopped at the end.

    log: where the JVM and its Python workers write instead of standard error.
    Raises JavaError, and SessionError with the end of the log when Spark does not start.
    """
    try:
        with _standard_error_in(log):
            spark = rc.session("local[*]", name="rechannel demo")
    except RechannelError:
        raise
    except Exception as error:
        tail = log.read_text(encoding="utf-8", errors="replace")[-_TAIL:]
        msg = f"Spark does not start ({type(error).__name__}: {error}); it says:\n{tail}"
        raise SessionError(msg) from error
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _standard_error_in(log: Path) -> Iterator[None]:
    """While this is open, child processes inherit a file as their standard error."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
