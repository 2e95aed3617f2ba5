"""What Spark raises when a task fails, turned into what it means."""

from __future__ import annotations

import re

from rechannel import errors
from rechannel.errors import RechannelError, TimestepError
from rechannel.sources.spark import unreadable

_MARKER = re.compile(
    r"rechannel\.errors\.(\w+): (.*?)(?=\n\tat |\nDriver stacktrace|\Z)", re.DOTALL
)


def translate(error: Exception, stage: str, timestep: int) -> RechannelError:
    """The error of this library that a worker raised, or a TimestepError with Spark's own words."""
    if isinstance(error, RechannelError):
        return error
    text = str(error)
    found = _MARKER.search(text)
    kind = getattr(errors, found.group(1), None) if found else None
    if found and isinstance(kind, type) and issubclass(kind, RechannelError):
        message = found.group(2).strip()
        made: RechannelError = kind(_placed(message, stage, timestep))
        return made
    known = unreadable(error)
    if known is not None:
        return known
    return TimestepError(
        f"operator {stage!r} failed in timestep {timestep}; nothing of it was committed and a "
        f"restart runs it again. Spark says: {text[:4000]}"
    )


def _placed(message: str, stage: str, timestep: int) -> str:
    """Name operator and timestep unless the worker did."""
    if message.startswith("operator "):
        return message
    return f"operator {stage!r}, timestep {timestep}: {message}"
