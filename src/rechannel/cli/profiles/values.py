"""How lengths of time are written for `rechannel profile`: with a unit, or as a number of seconds."""

from __future__ import annotations

from datetime import timedelta
from math import isfinite
from typing import Literal

import typer

from rechannel.dataflow.graph.durations import microseconds
from rechannel.errors import DataflowError


def duration(text: str, option: str) -> timedelta:
    """Read `5 seconds`, `200 ms`, or a number of seconds. Raises BadParameter."""
    number = _number(text)
    if number is not None and number >= 0:
        return timedelta(seconds=number)
    try:
        return timedelta(microseconds=microseconds(text, option, least=0))
    except DataflowError:
        msg = f"{option} must be a length of time such as '5 seconds' or '200 ms', or a number of seconds, not {text!r}"
        raise typer.BadParameter(msg) from None


def threshold(text: str) -> timedelta:
    """Read `200 ms`, or 0. Raises BadParameter, for a number without a unit, too: it was once milliseconds."""
    if _number(text):
        msg = f"--threshold {text} has no unit: write '{text} ms', or '{text} s' for seconds"
        raise typer.BadParameter(msg)
    return duration(text, "--threshold")


def window(text: str) -> Literal["batch"] | timedelta:
    """Read the length of windows. Raises BadParameter."""
    if text == "batch":
        return "batch"
    try:
        found = duration(text, "--window")
    except typer.BadParameter:
        found = timedelta(0)
    if not found:
        msg = f"--window must be 'batch', a length of time such as '5 seconds', or a number of seconds, not {text!r}"
        raise typer.BadParameter(msg)
    return found


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if isfinite(found) and found < 1e9 else None
