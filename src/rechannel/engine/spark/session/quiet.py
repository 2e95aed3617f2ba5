"""What PySpark would print beside the error that it raises, or where nothing is wrong, is not printed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark writes an error of SQL as JSON, with stacks of Python and Java, before it raises it."""

_asking = threading.local()


class _Quiet(logging.Filter):
    """Drops log records of threads that raise the error anyway."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(_asking, "quiet", False)


_QUIET = _Quiet()


@contextmanager
def errors_only_raised() -> Iterator[None]:
    """Errors of SQL that this thread meets are raised and not logged as well."""
    from pyspark.logger import PySparkLogger

    for name in _LOGGERS:
        PySparkLogger.getLogger(name).addFilter(_QUIET)
    _asking.quiet = True
    try:
        yield
    finally:
        _asking.quiet = False


def print_unless_hung_up(*words: Any, **how: Any) -> None:
    """Print, but not that what asked for a task has gone: that is how tasks are cancelled and sessions stopped."""
    text = " ".join(map(str, words))
    hung_up = "BrokenPipeError" in text or "ConnectionResetError" in text
    if not (hung_up and text.startswith("PySpark daemon failed to flush")):
        print(*words, **how)  # noqa: T201 - it stands in for `print`
