"""What a job with seams should have shown: lists and dicts over the rows that were pushed.

When timesteps begin and end is the engine's business, and one sink shows it: the rows of the source
that is always there, by timestep. Each row has to be there once, in the order of the source; what all
other sinks of that source show, timestep by timestep, follows from these rows alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import pyarrow as pa

Row = tuple[object, ...]
Shown = Mapping[int, list[Row]]
"""Rows by timestep. A timestep without rows is not there."""

Pushed = Sequence[Sequence[tuple[int, int]]]


def shown(tables: Mapping[int, pa.Table]) -> dict[int, list[Row]]:
    """What a reader finds, sorted within a timestep."""
    return {
        timestep: sorted(tuple(row.values()) for row in table.to_pylist())
        for timestep, table in sorted(tables.items())
    }


def check_once(pushed: Pushed, rows: Shown, *, everything: bool) -> None:
    """Rows of a source: none twice, none of another's, in order; everything: none lost."""
    expected = [row for batch in pushed for row in batch]
    got = [row for timestep in sorted(rows) for row in rows[timestep]]
    assert not (twice := [row for row, n in Counter(got).items() if n > 1]), f"twice: {twice}"
    assert not (strange := set(got) - set(expected)), f"of another: {strange}"
    assert not everything or not (lost := set(expected) - set(got)), f"lost: {lost}"
    values = [value for _, value in expected]
    assert sorted(value for _, value in got) == values[: len(got)], "rows are left out"
    ends = [(min(r[1] for r in rows[t]), max(r[1] for r in rows[t])) for t in sorted(rows)]  # type: ignore[type-var]
    assert all(one[1] < other[0] for one, other in pairwise(ends)), "order"


def totals(rows: Shown, since: int = 0) -> dict[int, list[Row]]:
    """What an operator with counts and sums shows of these rows, if it began empty at `since`."""
    held: dict[object, tuple[int, int]] = {}
    out: dict[int, list[Row]] = {}
    for timestep in sorted(t for t in rows if t >= since):
        for key, value in rows[timestep]:
            n, total = held.get(key, (0, 0))
            held[key] = (n + 1, total + value)  # type: ignore[operator]
        keys = {row[0] for row in rows[timestep]}
        out[timestep] = sorted((key, *held[key]) for key in keys)  # type: ignore[type-var]
    return out


def counts(rows: Shown, since: int) -> dict[int, list[Row]]:
    """The same with counts alone."""
    return {t: [row[:2] for row in shown] for t, shown in totals(rows, since).items()}


def between(rows: Shown, since: int, until: int | None) -> dict[int, list[Row]]:
    """Of timesteps since <= t < until."""
    return {t: r for t, r in rows.items() if t >= since and (until is None or t < until)}


def check_shown(name: str, got: Shown, expected: Shown, *, living: bool) -> None:
    """A sink that lives has shown everything; one that is gone a beginning of it."""
    order = sorted(expected)
    seen = [t for t in order if t in got] if living else order[: len(got)]
    assert sorted(got) == (order if living else seen), f"{name}: {sorted(got)}, not {order}"
    for timestep in seen:
        assert got[timestep] == expected[timestep], f"{name}: timestep {timestep}"


def state_of(rows: Shown, since: int = 0) -> list[Row]:
    """State of the operator after all these rows."""
    latest = {row[0]: row for shown_rows in totals(rows, since).values() for row in shown_rows}
    return sorted(latest.values(), key=repr)


def all_rows(tables: Iterable[pa.Table]) -> list[Row]:
    """Rows of some tables, sorted."""
    return sorted((tuple(r.values()) for table in tables for r in table.to_pylist()), key=repr)
