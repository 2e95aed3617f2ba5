"""Offsets of an ingest log, and what a timestep takes of it. Pure, but for heads that are read.

The offset of a source, as the journal keeps it:

    {"log": id of the log, "file": number, "row": row of the file that is read next, "rows": rows of the log before it}

`row` is below the number of rows of the file: at the end of a file stands row 0 of the next one, which need not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from rechannel.sources.ingest.format import Head
from rechannel.sources.reader import Offset, Split

SPLIT_ROWS = 50_000
"""Rows of a split at least, unless its timestep has fewer."""
MOST_SPLITS = 64
"""Into how many splits a timestep is cut."""

Heads = Callable[[int], Head]
"""The head of a file by its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a stream is in a log."""

    log: str
    file: int
    row: int
    rows: int

    def as_offset(self) -> Offset:
        """Return it as the journal keeps it."""
        return {"log": self.log, "file": self.file, "row": self.row, "rows": self.rows}


def position_of(offset: Offset) -> Position:
    """Return what `Position.as_offset` was made of."""
    return Position(log=offset["log"], file=offset["file"], row=offset["row"], rows=offset["rows"])


def taken(
    start: Position, last: Head, heads: Heads, most: int | None, size: int | None
) -> Position:
    """Return the position after the rows of one timestep, at least one row if there is any.

    last: head of the last file. most: rows that it takes; None for all. size: bytes, likewise.
    """
    stop = last.rows_after
    if most is not None:
        stop = min(stop, start.rows + most)
    if size is not None:
        stop = min(stop, max(start.rows + 1, _row_at(start, last, heads, size)))
    return at_row(start, last, heads, stop)


def _row_at(start: Position, last: Head, heads: Heads, size: int) -> int:
    """Return the row before which a number of bytes lie, from `start` on: every row of a file counts the same."""
    first = heads(start.file)
    until = first.bytes_before + size + (first.bytes * start.row // max(1, first.rows))
    if until >= last.bytes_after:
        return last.rows_after
    head = heads(_first(start.file, last.number, lambda number: heads(number).bytes_after > until))
    return head.rows_before + (until - head.bytes_before) * head.rows // head.bytes


def at_row(start: Position, last: Head, heads: Heads, row: int) -> Position:
    """Return the position of a row of the log, which lies between `start` and the end of the file `last`."""
    if row >= last.rows_after:
        return Position(log=start.log, file=last.number + 1, row=0, rows=last.rows_after)
    number = _first(start.file, last.number, lambda number: heads(number).rows_after > row)
    return Position(log=start.log, file=number, row=row - heads(number).rows_before, rows=row)


def _first(low: int, high: int, right: Callable[[int], bool]) -> int:
    """Return the first number for which `right` holds; it holds for `high`, and for all after the first."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if right(middle) else (middle + 1, high)
    return low


def splits(start: Position, end: Position, heads: Heads) -> list[Split]:
    """Return ranges of rows of about the same size, in order."""
    total = end.rows - start.rows
    if total <= 0:
        return []
    pieces = min(MOST_SPLITS, -(-total // SPLIT_ROWS))
    last = end.file if end.row else end.file - 1
    edges = [
        start,
        *(
            at_row(start, heads(last), heads, start.rows + total * piece // pieces)
            for piece in range(1, pieces)
        ),
        end,
    ]
    return [
        {
            "order": before.rows,
            "from": [before.file, before.row],
            "to": [after.file, after.row],
            "size": after.rows - before.rows,
        }
        for before, after in pairwise(edges)
    ]
