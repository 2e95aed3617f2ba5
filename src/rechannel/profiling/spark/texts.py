"""Texts of event logs, which may be of any length."""

from __future__ import annotations

KEPT = 1_000
"""Characters of a description, a name or a reason that are kept."""


def shortened(text: str, most: int = KEPT) -> str:
    """Return a text of at most `most` characters."""
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def first_line(text: str) -> str:
    """Return the first line of a text that is not empty, shortened."""
    return shortened(text.strip().partition("\n")[0])
