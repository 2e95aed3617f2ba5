"""What a job with seams should have shown: lists and dicts over the rows that were pushed.

When timesteps begin and end is the engine's business, and one sink shows it: the rows of the source
that is always there, by timestep. Each row has to be there once, in the order of the source; what all
other sinks of that source show, timestep by timestep, follows from these rows alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import pyarrow as pa

from tests.property.seams_program import DislikedError, Part, dislike, text_of

Row = tuple[Any, ...]
Shown = Mapping[int, list[Row]]
"""Rows by timestep. A timestep without rows is not there."""

Pushed = Sequence[Sequence[tuple[int, int]]]


def shown(tables: Mapping[int, pa.Table]) -> dict[int, list[Row]]:
    """What a reader finds, sorted within a timestep."""
    return {
        timestep: sorted(tuple(row.values()) for row in table.to_pylist())
        for timestep, table in sorted(tables.items())
    }


def narrow(rows: Shown) -> dict[int, list[Row]]:
    """Rows of a source without their texts, which have to be what they were."""
    for key, value, text in (row for timestep in rows for row in rows[timestep]):
        assert text == text_of(value), f"text of {key}, {value}"
    return {timestep: [row[:2] for row in shown_rows] for timestep, shown_rows in rows.items()}


def check_once(pushed: Pushed, rows: Shown, *, everything: bool) -> None:
    """Rows of a source: none twice, none of another's, in order; everything: none lost."""
    expected = [row for batch in pushed for row in batch]
    got = [row for timestep in sorted(rows) for row in rows[timestep]]
    assert not (twice := [row for row, n in Counter(got).items() if n > 1]), f"twice: {twice}"
    assert not (strange := set(got) - set(expected)), f"of another: {strange}"
    assert not everything or not (lost := set(expected) - set(got)), f"lost: {lost}"
    values = [value for _, value in expected]
    assert sorted(value for _, value in got) == values[: len(got)], "rows are left out"
    ends = [(min(r[1] for r in rows[t]), max(r[1] for r in rows[t])) for t in sorted(rows)]
    assert all(one[1] < other[0] for one, other in pairwise(ends)), "order"


def totals(rows: Shown, since: int = 0) -> dict[int, list[Row]]:
    """What an operator with counts, sums and greatest texts shows of these rows, if it began empty at `since`."""
    held: dict[object, tuple[int, int, str]] = {}
    out: dict[int, list[Row]] = {}
    for timestep in sorted(t for t in rows if t >= since):
        for key, value in rows[timestep]:
            n, total, text = held.get(key, (0, 0, ""))
            held[key] = (n + 1, total + value, max(text, text_of(value)))
        keys = {row[0] for row in rows[timestep]}
        out[timestep] = sorted((key, *held[key]) for key in keys)
    return out


def counts(rows: Shown, since: int) -> dict[int, list[Row]]:
    """The same with counts alone."""
    return {t: [row[:2] for row in shown] for t, shown in totals(rows, since).items()}


def liked(part: Part, rows: Shown, since: int) -> tuple[dict[int, list[Row]], dict[int, list[Row]]]:
    """What a function that fails for some rows shows, and its dead letters. A key goes with all its rows."""
    out: dict[int, list[Row]] = {}
    dead: dict[int, list[Row]] = {}
    held: Counter[object] = Counter()
    for timestep in sorted(t for t in rows if t >= since):
        groups = [[row] for row in rows[timestep]]
        if part.function == "track":
            groups = [list(group) for _, group in groupby(rows[timestep], key=itemgetter(0))]
        for group in groups:
            if error := _error(group):
                dead.setdefault(timestep, []).extend((part.name, error, *row) for row in group)
            elif part.function == "track":
                held[group[0][0]] += len(group)
                out.setdefault(timestep, []).append((group[0][0], held[group[0][0]]))
            else:
                out.setdefault(timestep, []).extend(group)
    return out, dead


def _error(rows: Iterable[Row]) -> str | None:
    try:
        for _, value in rows:
            dislike(value)
    except DislikedError as error:
        return f"{type(error).__name__}: {error}"
    return None


def letters(rows: Shown) -> dict[int, list[Row]]:
    """Dead letters as `liked` has them, whose texts have to be those of rows."""
    told = {t: [(name, why, json.loads(row)) for name, why, row in rows[t]] for t in rows}
    for _, _, row in (each for timestep in told for each in told[timestep]):
        assert row == {"k": row["k"], "v": row["v"], "w": text_of(row["v"])}
    return {t: sorted((name, why, r["k"], r["v"]) for name, why, r in told[t]) for t in told}


def between(rows: Shown, since: int, until: int | None) -> dict[int, list[Row]]:
    """Of timesteps since <= t < until."""
    return {t: sorted(r) for t, r in rows.items() if t >= since and (until is None or t < until)}


def check_shown(name: str, got: Shown, expected: Shown, *, living: bool) -> None:
    """A sink that lives has shown everything; one that is gone a beginning of it."""
    order = sorted(expected)
    seen = [t for t in order if t in got] if living else order[: len(got)]
    assert sorted(got) == (order if living else seen), f"{name}: {sorted(got)}, not {order}"
    for timestep in seen:
        assert got[timestep] == expected[timestep], f"{name}: timestep {timestep}"
