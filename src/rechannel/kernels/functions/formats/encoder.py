"""What an encoder is to everything else: a value that says which columns it takes, and writes rows of them as bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa


@dataclass(frozen=True, eq=False, kw_only=True)
class Encoded:
    """What came of some rows."""

    values: pa.Array
    """Of those that could be written, in order."""
    errors: Mapping[int, str] = field(default_factory=dict)
    """Why the others could not, by their place among the rows."""


class Encoder(ABC):
    """Writes the rows of a stream as records. Making one asks no registry."""

    called: ClassVar[str]
    """What people call the format."""
    kind: ClassVar[pa.DataType] = pa.binary()
    """Type of the records: text or binary."""

    @property
    def fields(self) -> tuple[str, ...] | None:
        """Names of the columns that the schema has; None = whatever columns there are."""
        return None

    @abstractmethod
    def check(self, columns: pa.Schema) -> None:
        """Raise DataflowError if rows of these columns cannot be written."""

    def agree(self, columns: pa.Schema) -> None:  # noqa: B027 - most formats have no registry
        """Have the schema in its registry, if it has one. For the driver, before any work starts.

        Raises RefusedError if the registry does not have it, or does not take it, StorageError, NotPermittedError.
        """

    @abstractmethod
    def encoded(self, rows: pa.RecordBatch) -> Encoded:
        """Write rows. The same rows give the same bytes, and each row by itself.

        Raises StorageError if a registry does not answer.
        """


def rows_by_halves(rows: pa.RecordBatch, write: Callable[[pa.RecordBatch], pa.Array]) -> Encoded:
    """Write rows at once, or the halves of them if that fails, down to single rows.

    write: raises ValueError if one of them cannot be written.
    """
    made, errors = list[pa.Array](), dict[int, str]()
    pending = [(0, rows.num_rows)]
    while pending:
        start, stop = pending.pop()
        try:
            made.append(write(rows.slice(start, stop - start)))
        except ValueError as error:
            if stop - start <= 1:
                errors[start] = str(error)
                continue
            middle = (start + stop) // 2
            pending += [(middle, stop), (start, middle)]
    return Encoded(values=pa.concat_arrays(made) if made else pa.array([]), errors=errors)


def rows_apart(
    rows: pa.RecordBatch, suspects: np.ndarray, write: Callable[[pa.RecordBatch], pa.Array]
) -> Encoded:
    """Write suspects alone, and all others as `rows_by_halves` does. suspects: places of rows."""
    errors = dict[int, str]()
    for place in suspects.tolist():
        try:
            write(rows.slice(place, 1))
        except ValueError as error:
            errors[place] = str(error)
    left = np.delete(np.arange(rows.num_rows), list(errors))
    made = rows_by_halves(rows.take(pa.array(left)), write)
    errors |= {int(left[at]): error for at, error in made.errors.items()}
    return Encoded(values=made.values, errors=errors)


def rest(count: int, errors: Mapping[int, str]) -> pa.Array:
    """Return a mask of the rows without an error."""
    mask = np.ones(count, bool)
    mask[list(errors)] = False
    return pa.array(mask)
