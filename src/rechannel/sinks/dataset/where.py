"""Which partitions have rows with some values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from urllib.parse import unquote

from rechannel.sinks.partitioned import NOTHING


def chosen(part: str, where: Mapping[str, object]) -> bool:
    """Return whether rows of a partition have these values."""
    values = dict(pair.partition("=")[::2] for pair in part.split("/"))
    has = {unquote(name): unquote(value) for name, value in values.items()}
    return all(has.get(name) == _text(value) for name, value in where.items())


def _text(value: object) -> str:
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else str(value)
