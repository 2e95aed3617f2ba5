"""Translate what Spark raises when a task fails into errors of this library."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from rechannel import errors
from rechannel.engine.failures.blame import Blame, blame_of_words, is_over
from rechannel.errors import (
    ClusterError,
    RechannelError,
    StorageError,
    TimestepError,
    UserFunctionError,
    gone_error,
    one_sentence,
)
from rechannel.sources.spark import unreadable

_MARKER = re.compile(
    r"rechannel\.errors\.(\w+): (.*?)(?=\n\tat |\nDriver stacktrace|\Z)", re.DOTALL
)

_FRAME = re.compile(r"\tat |\t\.\.\. \d+ more|Driver stacktrace:")


def translate(error: Exception, stage: str, timestep: int) -> RechannelError:
    """Return the error of this library that a worker raised, or a TimestepError with Spark's message."""
    more = "; nothing of it was committed, and a restart runs it again"
    return _translated(error, f"operator {stage!r}", timestep, more)


def translate_of_sink(error: Exception, sink: str, timestep: int) -> Exception:
    """Translate an error of a job that a sink runs, possibly inside a function of the user.

    An error that the function itself raises is returned unchanged, and so is one that Spark raises for a mistake in it.
    """
    inside = isinstance(error, UserFunctionError)
    cause = error.__cause__ if inside else error
    if not isinstance(cause, Py4JError | PySparkException):
        return error
    made = (
        gone_error("Spark was stopped")
        if is_over(str(cause))
        else _translated(cause, f"sink {sink!r}", timestep, "")
    )
    if inside and type(made) is TimestepError:
        return error
    made.__cause__ = error
    return made


def _translated(error: Exception, who: str, timestep: int, more: str) -> RechannelError:
    if isinstance(error, RechannelError):
        return error
    text = str(error)
    found = _MARKER.search(text)
    named = getattr(errors, found.group(1), None) if found else None
    if found and isinstance(named, type) and issubclass(named, RechannelError):
        message = found.group(2).strip()
        made: RechannelError = named(_placed(message, who, timestep))
        return made
    blame = blame_of_words(text)
    if blame.passes:
        what = one_sentence(error)
        kind = StorageError if blame is Blame.STORE else ClusterError
        return kind(f"{who} failed in timestep {timestep}. Spark says: {what}")
    known = unreadable(error)
    if known is not None:
        return known
    return TimestepError(
        f"{who} failed in timestep {timestep}{more}. Spark says: {_without_frames(text)[:4000]}"
    )


def _without_frames(text: str) -> str:
    """Return Spark's message without JVM stack frames; Python's stay."""
    return "\n".join(line for line in text.splitlines() if not _FRAME.match(line))


def _placed(message: str, who: str, timestep: int) -> str:
    """Add operator (or sink) and timestep unless the worker has named them."""
    if message.startswith("operator "):
        return message
    return f"{who}, timestep {timestep}: {message}"
