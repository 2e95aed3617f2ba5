"""What Spark raises when a task fails, turned into what it means."""

from __future__ import annotations

import re

from rechannel import errors
from rechannel.engine.blame import Blame, blame_of_words
from rechannel.errors import (
    ClusterError,
    RechannelError,
    StorageError,
    TimestepError,
    one_sentence,
)
from rechannel.sources.spark import unreadable

_MARKER = re.compile(
    r"rechannel\.errors\.(\w+): (.*?)(?=\n\tat |\nDriver stacktrace|\Z)", re.DOTALL
)

_FRAME = re.compile(r"\tat |\t\.\.\. \d+ more|Driver stacktrace:")


def translate(error: Exception, stage: str, timestep: int) -> RechannelError:
    """The error of this library that a worker raised, or a TimestepError with Spark's own words."""
    if isinstance(error, RechannelError):
        return error
    text = str(error)
    found = _MARKER.search(text)
    named = getattr(errors, found.group(1), None) if found else None
    if found and isinstance(named, type) and issubclass(named, RechannelError):
        message = found.group(2).strip()
        made: RechannelError = named(_placed(message, stage, timestep))
        return made
    blame = blame_of_words(text)
    if blame.passes:
        what = one_sentence(error)
        kind = StorageError if blame is Blame.STORE else ClusterError
        return kind(f"operator {stage!r} failed in timestep {timestep}. Spark says: {what}")
    known = unreadable(error)
    if known is not None:
        return known
    return TimestepError(
        f"operator {stage!r} failed in timestep {timestep}; nothing of it was committed and a "
        f"restart runs it again. Spark says: {_without_frames(text)[:4000]}"
    )


def _without_frames(text: str) -> str:
    """What Spark says without the stacks of its JVMs; those of Python stay."""
    return "\n".join(line for line in text.splitlines() if not _FRAME.match(line))


def _placed(message: str, stage: str, timestep: int) -> str:
    """Name operator and timestep unless the worker did."""
    if message.startswith("operator "):
        return message
    return f"operator {stage!r}, timestep {timestep}: {message}"
