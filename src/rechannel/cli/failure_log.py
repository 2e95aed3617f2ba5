"""The log's line about a job that has failed, where the command itself prints the same a moment later."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_EVENT = "job_ended"


@contextmanager
def printed_once() -> Iterator[None]:
    """Leave the failure of a job out of the log where no handler is set up: Python then prints it as well."""
    logger = logging.getLogger("rechannel")
    logger.addFilter(_passes)
    try:
        yield
    finally:
        logger.removeFilter(_passes)


def _passes(record: logging.LogRecord) -> bool:
    ended = getattr(record, "event", None) == _EVENT and record.levelno >= logging.ERROR
    return not ended or logging.getLogger("rechannel").hasHandlers()
