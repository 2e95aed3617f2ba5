"""The rows of a changelog as its readers see them: with or without the rows before updates, under their column name.

Tasks make a changelog once per operator (`kernels.tasks.changelog`), with all rows and the words in the last column.
Each of its readers has one of these functions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.errors import DataflowError
from rechannel.model.changelog import CHANGE, UPDATE_BEFORE
from rechannel.model.ddl import type_name
from rechannel.model.hashing import canonical


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogRows:
    """Makes the rows that one reader of a changelog receives."""

    before: bool = True
    """Whether the rows before updates are wanted."""
    column: str = CHANGE
    """Name of the column that says what happened; the last one."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that are wanted. batch: all rows of a changelog."""
        if not self.before:
            words = batch.column(batch.num_columns - 1)
            batch = batch.filter(pc.not_equal(words, UPDATE_BEFORE))
        return batch.rename_columns([*batch.schema.names[:-1], self.column])

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of the rows, given those of the table. Raises DataflowError."""
        if self.column in schema.names:
            msg = (
                f"the rows have a column {self.column!r} already: name the changelog's otherwise, with"
                " changelog(column=...)"
            )
            raise DataflowError(msg)
        for field in schema:
            _need_comparable(field)
        return with_words(schema, self.column)


def with_words(schema: pa.Schema, column: str = CHANGE) -> pa.Schema:
    """Return columns of a table with the one that says what happened."""
    return schema.append(pa.field(column, pa.string(), False))


def words_of(codes: np.ndarray, words: tuple[str, ...]) -> pa.Array:
    """Return the words that codes stand for: their positions."""
    found = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(words))
    return found.cast(pa.string())


def _need_comparable(field: pa.Field) -> None:
    try:
        canonical(pa.array([], field.type))
    except DataflowError as error:
        msg = (
            f"column {field.name!r} is {type_name(field.type)}, of which a changelog cannot tell whether a value"
            " changed: leave it out of the operator, or make a text of it before"
        )
        raise DataflowError(msg) from error
