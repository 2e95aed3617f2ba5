"""Text of several lines, shown as it reads, and figures in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html import escape

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


def iso(when: datetime) -> str:
    """A time as ISO 8601: UTC as `Z`, with milliseconds, and with microseconds where it has any."""
    spec = "microseconds" if when.microsecond % 1000 else "milliseconds"
    return when.isoformat(timespec=spec).replace("+00:00", "Z")


def iso_utc(ms: float) -> str:
    """A time as ISO 8601 in UTC, from Unix milliseconds."""
    try:
        return iso(datetime.fromtimestamp(round(ms) / 1000, UTC))
    except (OverflowError, ValueError, OSError):  # rows and clocks may say anything
        return f"{ms:.0f} ms"


def iso_utc_us(us: int) -> str:
    """A time as ISO 8601 in UTC, from Unix microseconds."""
    try:
        return iso(_EPOCH + timedelta(microseconds=us))
    except OverflowError:  # rows may hold any time
        return f"{us} µs"
