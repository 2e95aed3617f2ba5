"""Figures of advice as text."""

from __future__ import annotations

LEAST = 1e-3


def short(value: float) -> str:
    """Return a number with three digits, and never with an exponent: 1,250,000 is 1.25 M."""
    size = abs(value)
    for least, by, unit in ((999_500_000, 1e9, "G"), (999_500, 1e6, "M"), (9_999.5, 1e3, "k")):
        if size >= least:
            number = value / by
            return f"{number:.3g} {unit}" if abs(number) < 999.5 else f"{number:,.0f} {unit}"
    if size >= 999.5:
        return f"{value:,.0f}"
    if 0 < size < LEAST:
        return f"< {LEAST:g}" if value > 0 else f"> -{LEAST:g}"
    return f"{value:.3g}"


def between(low: int, high: int) -> str:
    """Return an interval of numbers, which may be one number."""
    return f"{low}" if low == high else f"{low} to {high}"
