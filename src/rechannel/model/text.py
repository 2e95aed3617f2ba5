"""Text of several lines, shown as it reads, and figures in words."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape


class Text(str):
    """A text whose `repr` is the text itself, so that a shell and a notebook show its lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


def in_bytes(size: float) -> str:
    """A number of bytes with its unit."""
    if size < 1000:
        return f"{size:.0f} bytes"
    units = ("KB", "MB", "GB")
    power = next((n for n in range(1, len(units)) if size < 1000 ** (n + 1)), len(units))
    return f"{size / 1000**power:.1f} {units[power - 1]}"


def iso_utc(ms: float) -> str:
    """A time as ISO 8601 in UTC, from Unix milliseconds."""
    try:
        when = datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # rows and clocks may say anything
        return f"{ms:.0f} ms"
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
