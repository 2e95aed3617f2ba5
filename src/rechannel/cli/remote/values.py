"""How values beside a change are written on the command line: lengths of time, budgets, moments."""

from __future__ import annotations

from rechannel.errors import RefusedError
from rechannel.reconfigure.notation import (
    BYTES,
    MILLISECONDS,
    byte_count,
    milliseconds,
    number_and_unit,
)

EVENT = "event:"


def seconds(text: str) -> float:
    """Read `500ms`, `30s` or `2min`, always with a unit. Raises RefusedError."""
    number, unit = number_and_unit(text)
    if number is None or unit not in MILLISECONDS:
        msg = f"{text!r} is not a length of time: write a number and its unit, such as 30s or 2min"
        raise RefusedError(msg)
    return number * MILLISECONDS[unit] / 1e3


def budget(text: str) -> dict[str, float | int]:
    """Read `50ms` or `10MB`: the field of a strategy that it sets. Raises RefusedError."""
    _, unit = number_and_unit(text)
    if unit in MILLISECONDS:
        return {"budget_ms": milliseconds(text)}
    if unit in BYTES:
        return {"budget_bytes": byte_count(text)}
    msg = (
        f"{text!r} is not a budget: write what a timestep may spend on moves, such as 50ms or 10MB"
    )
    raise RefusedError(msg)


def moment(text: str) -> int | str | dict[str, str]:
    """Read a timestep's number, a time, or `event:TIME[@OPERATOR]`; the job reads the times."""
    if not text.startswith(EVENT):
        return int(text) if text.isdecimal() else text
    time, _, operator = text.removeprefix(EVENT).partition("@")
    return {"event_time": time, **({"operator": operator} if operator else {})}
