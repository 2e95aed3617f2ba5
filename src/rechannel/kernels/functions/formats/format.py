"""What a format is to everything else: a value that says which columns it has, and reads them from bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, eq=False, kw_only=True)
class Parsed:
    """What came of some values."""

    rows: pa.RecordBatch
    """Those that could be read, in order."""
    errors: Mapping[int, str] = field(default_factory=dict)
    """Why the others could not, by their place among the values."""


class Format(ABC):
    """A format of records as a value. Making one asks no registry.

    A new format is a subclass, and a function in `rechannel.formats`.
    """

    called: ClassVar[str]
    """What people call it."""

    @property
    @abstractmethod
    def columns(self) -> pa.Schema:
        """The columns of a record, all nullable."""

    @abstractmethod
    def parsed(self, values: pa.Array) -> Parsed:
        """Read values: texts or binaries. A null is a row of nulls.

        Which values can be read must not depend on the other ones. Raises StorageError if a registry does not answer.
        """


def by_halves(count: int, read: Callable[[int, int], pa.RecordBatch], schema: pa.Schema) -> Parsed:
    """Read a range of values at once, or the halves of it if that fails, down to single values.

    read: (start, stop) -> their rows. Raises ValueError if one of them cannot be read.
    """
    made, errors = list[pa.RecordBatch](), dict[int, str]()
    pending = [(0, count)]
    while pending:
        start, stop = pending.pop()
        if start == stop:
            continue
        try:
            made.append(read(start, stop))
        except ValueError as error:
            if stop - start == 1:
                errors[start] = str(error)
                continue
            middle = (start + stop) // 2
            pending += [(middle, stop), (start, middle)]
    return Parsed(rows=joined(made, schema), errors=errors)


def joined(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return batches as one."""
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return pa.RecordBatch.from_pylist([], schema)
    return pa.concat_batches(batches)


def in_groups(
    values: pa.Array,
    groups: Mapping[str, np.ndarray],
    parse: Callable[[str, pa.Array], Parsed],
    errors: Mapping[int, str],
    schema: pa.Schema,
) -> Parsed:
    """Read groups of values, and return their rows in the order of the values.

    groups: places of values by group; places that are in none, and not in `errors`, are rows of nulls.
    errors: places that are known to be unreadable.
    """
    parts = [(at, parse(name, values.take(pa.array(at)))) for name, at in groups.items()]
    left = np.ones(len(values), bool)
    for at in (*groups.values(), np.fromiter(errors, np.int64)):
        left[at] = False
    empty = np.flatnonzero(left)
    if len(empty):
        parts.append((empty, Parsed(rows=nulls(len(empty), schema))))
    made = in_order(parts, schema)
    return Parsed(rows=made.rows, errors={**errors, **made.errors})


def in_order(parts: Sequence[tuple[np.ndarray, Parsed]], schema: pa.Schema) -> Parsed:
    """Return what came of parts of some values, in the order of the values.

    parts: places of values, and what came of them.
    """
    errors, left = dict[int, str](), list[np.ndarray]()
    for at, made in parts:
        errors |= {int(at[place]): error for place, error in made.errors.items()}
        left.append(np.delete(at, list(made.errors)) if made.errors else at)
    rows = joined([made.rows for _, made in parts], schema)
    places = np.concatenate(left) if left else np.empty(0, np.int64)
    if (places[1:] < places[:-1]).any():
        rows = rows.take(pa.array(np.argsort(places, kind="stable")))
    return Parsed(rows=rows, errors=errors)


def nulls(count: int, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of nulls."""
    return pa.RecordBatch.from_arrays([pa.nulls(count, f.type) for f in schema], schema=schema)


def binaries(values: pa.Array) -> pa.Array:
    """Return texts or binaries as `binary`."""
    return values if pa.types.is_binary(values.type) else pc.cast(values, pa.binary())
