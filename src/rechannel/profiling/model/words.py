"""Figures as words."""

from __future__ import annotations

from collections.abc import Sequence

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def seconds(length: float) -> str:
    """Return a length of time, in seconds, in words: 40 ms, 3.2 s, 74.5 s, 12 min, 3.5 h. It has at most three
    digits.
    """
    if 0 < length < 1:
        return f"{_digits(length * 1_000)} ms"
    if length < 600:
        return f"{_digits(length)} s"
    return f"{_digits(length / 60)} min" if length < 7_200 else f"{_digits(length / 3_600)} h"


def _digits(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return names as an enumeration; the rest is counted."""
    shown = list(names[:most])
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def size(count: float) -> str:
    """Return a number of bytes in words: 512 B, 1.5 MiB."""
    power = 0
    while count >= 1_000 and power < len(_UNITS) - 1:
        count, power = count / 1_024, power + 1
    return (
        f"{count:.0f} {_UNITS[power]}"
        if count >= 10 or not power
        else f"{count:.1f} {_UNITS[power]}"
    )


def percent(share: float) -> str:
    """Return a share in words: 43 %, below 1 %."""
    return f"{share * 100:.0f} %" if share >= 0.01 or share == 0 else "below 1 %"


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun: 1 task, 12 tasks."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def capitalised(text: str) -> str:
    """Return a text as the beginning of a sentence."""
    return f"{text[:1].upper()}{text[1:]}"
