"""Errors over HTTP: a status, a kind, and the message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rechannel.errors import (
    DamagedStateError,
    DataflowError,
    FencedError,
    NoAnswerError,
    NotReadyError,
    RechannelError,
    RefusedError,
    UnknownOperatorError,
)


class MalformedError(RefusedError):
    """The body is invalid; the message names the field."""


class ForbiddenError(RefusedError):
    """The request is forbidden, whatever the state of the job."""


class NoSuchError(NotReadyError):
    """The path names something that does not exist."""


class EndedError(RefusedError):
    """The job has ended."""


KINDS: tuple[tuple[type[Exception], int, str], ...] = (
    (MalformedError, 422, "malformed"),
    (ForbiddenError, 403, "forbidden"),
    (EndedError, 410, "ended"),
    (NoSuchError, 404, "not_found"),
    (UnknownOperatorError, 404, "unknown_operator"),
    (RefusedError, 409, "refused"),
    (DataflowError, 409, "refused"),
    (NotReadyError, 503, "not_ready"),
    (TimeoutError, 503, "not_ready"),
    (FencedError, 410, "ended"),
    (DamagedStateError, 500, "damaged_state"),
    (RechannelError, 500, "failed"),
)
"""Status and kind by class of the error; the first match counts."""


class _Lives(Protocol):
    @property
    def name(self) -> str:
        """Of the job."""

    @property
    def is_active(self) -> bool:
        """Whether it runs."""


def status_of(error: Exception) -> tuple[int, str]:
    """HTTP status and error kind; (500, "internal") for an unknown class."""
    return next(
        ((status, kind) for cls, status, kind in KINDS if isinstance(error, cls)),
        (500, "internal"),
    )


@contextmanager
def while_it_runs(job: _Lives) -> Iterator[None]:
    """Raise EndedError if the job has ended, or if it ends within the block."""
    msg = f"job {job.name!r} has ended: start it again, then repeat the request"
    if not job.is_active:
        raise EndedError(msg)
    try:
        yield
    except RefusedError as error:
        if job.is_active:
            raise
        raise EndedError(msg) from error


@contextmanager
def named_in_the_address() -> Iterator[None]:
    """Raise NoSuchError in place of NotReadyError: the path names what is missing."""
    try:
        yield
    except NoAnswerError:
        raise
    except NotReadyError as error:
        raise NoSuchError(str(error)) from error
