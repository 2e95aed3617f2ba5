"""Where a timestep ends, by the bytes that it reads. Pure.

A source provides *units* (files, batches), each of one or several *parts* (row groups) that cannot
be cut further. A timestep takes parts in order as long as they fit into its budget, and always at
least one: a part that is too large for any timestep runs in one of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

VARIABLE_BYTES = 32
"""Assumed size of a text, list or other value without a fixed width."""


def cut(units: Iterable[Sequence[int]], most: int | None, done: int = 0) -> tuple[int, int | None]:
    """Return how many units a timestep takes, and how many parts of the last one; None for all of
    them.

    units: bytes of the parts of each unit; consumed only as far as needed. most: total bytes; None
    for no bound. done: parts of the first unit that were taken earlier; they do not count.
    """
    taken, sum_, first = 0, 0, True
    for sizes in units:
        for part, size in enumerate(sizes[done:], start=done):
            if most is not None and not first and sum_ + size > most:
                return (taken + 1, part) if part > done else (taken, None)
            sum_, first = sum_ + size, False
        taken, done = taken + 1, 0
    return taken, None


def row_bytes(schema: pa.Schema) -> int:
    """Return about how many bytes a row takes in Arrow, by its columns alone; at least 1."""
    return max(1, sum(value_bytes(field.type) for field in schema))


def value_bytes(kind: pa.DataType) -> int:
    """Return about how many bytes a value takes, whatever is in it."""
    if pa.types.is_struct(kind):
        return sum(value_bytes(kind.field(i).type) for i in range(kind.num_fields))
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return VARIABLE_BYTES
