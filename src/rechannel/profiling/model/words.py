"""Figures as words."""

from __future__ import annotations

from collections.abc import Sequence


def seconds(length: float) -> str:
    """Return a length of time, in seconds, with its unit and about three digits."""
    if length >= 100:
        return f"{length:,.0f} s"
    if length >= 1:
        return f"{length:.1f} s"
    return f"{length * 1_000:,.0f} ms"


def listed(each: Sequence[str]) -> str:
    """Return a list in words: `a, b and c`."""
    if len(each) < 2:
        return "".join(each)
    return f"{', '.join(each[:-1])} and {each[-1]}"
