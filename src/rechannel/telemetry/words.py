"""A job's status as a text for people. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rechannel.model.text import in_bytes, iso_utc

UNKNOWN = "unknown"


def status_text(facts: Mapping[str, Any], in_units: Callable[[float], str] = in_bytes) -> str:
    """Return a status as lines: the job, its sources, its operators. facts: as `JobStatus.to_dict()` has them."""
    committed = facts["committed_ms"]
    when = "" if committed is None else f" committed at {iso_utc(committed)}"
    lines = [
        f"{facts['name']}: {facts['message']}, timestep {facts['timestep']}{when},"
        f" configuration {facts['configuration']}"
    ]
    lines += [f"{topic}: {words}" for topic, words in facts["troubles"].items()]
    if facts["lag"]:
        rows = [[name, *lag_words(lag, in_units)] for name, lag in facts["lag"].items()]
        lines += ["", *_table(["source", "unread rows", "unread bytes", "seconds waited"], rows)]
    if facts["operators"]:
        head = ["operator", "tasks", "state rows", "state", "late", "dead", "lag of event time"]
        rows = [[name, *_operator(each, in_units)] for name, each in facts["operators"].items()]
        lines += ["", *_table(head, rows)]
    return "\n".join(lines)


def lag_words(
    lag: Mapping[str, Any], in_units: Callable[[float], str] = in_bytes
) -> tuple[str, str, str]:
    """Return rows, bytes and seconds in words; `~` stands before an estimate, `>` before a lower bound."""
    rows, size, seconds = lag["rows"], lag["bytes"], lag["seconds"]
    about = {lag["estimated"]: "~"}
    return (
        UNKNOWN if rows is None else f"{about.get('rows', '')}{rows:,}",
        UNKNOWN if size is None else f"{about.get('bytes', '')}{in_units(size)}",
        UNKNOWN if seconds is None else f"{'>' if lag['at_least'] else ''}{seconds:,.1f}",
    )


def lag_of_time(seconds: float | None) -> str:
    """Return the lag of a watermark; `-` if there is none."""
    return "-" if seconds is None else f"{seconds:,.1f} s"


def _operator(facts: Mapping[str, Any], in_units: Callable[[float], str]) -> list[str]:
    rows, size = facts["state_rows"], facts["state_bytes"]
    return [
        f"{facts['tasks']:,}",
        "-" if rows is None else f"{rows:,}",
        "-" if size is None else in_units(size),
        f"{facts['rows_late']:,}",
        f"{facts['rows_dead']:,}",
        lag_of_time(facts["event_time_lag_s"]),
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of columns, the first one to the left and the others to the right."""
    every = [head, *rows]
    widths = [max(len(row[column]) for row in every) for column in range(len(head))]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in every
    ]
