"""Rows that a vectorised function answers for the keys of a frame: any number per key, by `_key`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rechannel.errors import UserFunctionError
from rechannel.kernels.columnar.columns import Columns
from rechannel.model.buffers import IntArray
from rechannel.operators.process.track_frame import (
    KEY,
    FrameAnswer,
    declared_column,
    named_columns,
)


def rows_of_answer(
    answer: FrameAnswer, fields: pa.Schema, count: int, name: str
) -> tuple[IntArray, Columns]:
    """Return the key number of every row of an answer, ascending, and its columns. Raises UserFunctionError.

    fields: columns of the answer. count: number of keys. name: of the function, or what else messages call it.
    """
    columns = named_columns(answer, name)
    missing = [field.name for field in fields if field.name not in columns]
    unknown = [column for column in columns if column not in fields.names and column != KEY]
    if missing or unknown:
        msg = (
            f"{name} must answer the columns {', '.join(fields.names)}, and {KEY!r} where it is not one row per key"
            + (f"; {missing[0]!r} is missing" if missing else "")
            + (f"; {unknown[0]!r} is not one of them" if unknown else "")
        )
        raise UserFunctionError(msg)
    made = [declared_column(columns[field.name], field, name) for field in fields]
    owners = _owners(columns, count, name)
    for field, column in zip(fields, made, strict=True):
        if len(column) != len(owners):
            whose = f"{len(owners)} values of {KEY!r}" if KEY in columns else f"{count} keys"
            msg = f"{name}: column {field.name!r} has {len(column)} values for {whose}"
            raise UserFunctionError(msg)
    if not bool((owners[1:] < owners[:-1]).any()):
        return owners, made
    order = np.argsort(owners, kind="stable")
    return owners[order], [column.take(pa.array(order)) for column in made]


def _owners(columns: Any, count: int, name: str) -> IntArray:
    """Key number of every row."""
    if KEY not in columns:
        return np.arange(count, dtype=np.int64)
    declared = declared_column(columns[KEY], pa.field(KEY, pa.int64()), name)
    owners: IntArray = declared.fill_null(-1).to_numpy(zero_copy_only=False)
    if len(owners) and (owners.min() < 0 or owners.max() >= count):
        msg = f"{name}: {KEY!r} is the number of a key, from 0 to {count - 1}, and never null"
        raise UserFunctionError(msg)
    return owners
