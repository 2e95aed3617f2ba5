"""Rows that take the place of those with their keys, in one snapshot of an Iceberg table: copy on write.

Every file that has one of the keys is written again without it. Which files can have one is known by the statistics
of their columns. PyIceberg's own upsert puts keys into expressions: five thousand of two columns take it more than a
minute, where a join takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

FEW = 200
"""Of this many values PyIceberg still compares each with the statistics of a file."""


def upsert(transaction: Any, io: Any, given: pa.Table, keys: Sequence[str]) -> None:
    """Add rows, whose keys differ, to a transaction of a table, and take those with the same keys away."""
    from pyiceberg.io.pyarrow import _dataframe_to_data_files
    from pyiceberg.table import DataScan

    metadata = transaction.table_metadata
    scan = DataScan(table_metadata=metadata, io=io, row_filter=_may_have(given, keys))
    gone, new = [], []
    for task in scan.plan_files():
        there = _read(task, metadata, io)
        kept = without(there, given, keys)
        if kept.num_rows < there.num_rows:
            gone.append(task.file)
            if kept.num_rows:
                new += _dataframe_to_data_files(table_metadata=metadata, df=kept, io=io)
    if not gone:
        transaction.append(given)
        return
    new += _dataframe_to_data_files(table_metadata=metadata, df=given, io=io)
    with transaction.update_snapshot().overwrite() as snapshot:
        for file in gone:
            snapshot.delete_data_file(file)
        for file in new:
            snapshot.append_data_file(file)


def without(there: pa.Table, given: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the rows that have none of the given keys, in their order. Rows without a key have none."""
    place = "/".join(keys) + "/"  # no key's own name
    mine = pl.DataFrame(given.select(keys))
    its = pl.DataFrame(there.select(keys))
    kept = its.with_row_index(place).join(mine, on=list(keys), how="anti", maintain_order="left")
    if len(kept) == there.num_rows:
        return there
    mask = pl.Series([False]).new_from_index(0, there.num_rows).scatter(kept[place], True)
    return there.filter(mask.to_arrow())


def _read(task: Any, metadata: Any, io: Any) -> pa.Table:
    """Return the rows of one file, with the columns that the table has now."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    everything = AlwaysTrue()
    scan = ArrowScan(metadata, io, projected_schema=metadata.schema(), row_filter=everything)
    return scan.to_table(tasks=[task])


def _may_have(given: pa.Table, keys: Sequence[str]) -> Any:
    """Return an expression that holds for all rows with one of the keys, and for few others."""
    from pyiceberg.expressions import AlwaysTrue, And

    return reduce(And, (_in_range(given, key) for key in keys), AlwaysTrue())


def _in_range(given: pa.Table, key: str) -> Any:
    from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, In, LessThanOrEqual

    column = given.column(key)
    if not (pa.types.is_integer(column.type) or _is_text(column.type)):
        return (
            AlwaysTrue()
        )  # other values are no literals of an expression, or compare in another way
    values = pc.unique(column)
    if len(values) <= FEW:
        return In(key, values.to_pylist())
    ends = pc.min_max(values)
    return And(
        GreaterThanOrEqual(key, ends["min"].as_py()), LessThanOrEqual(key, ends["max"].as_py())
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
