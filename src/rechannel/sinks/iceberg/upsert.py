"""Rows that take the place of those with their keys, in one snapshot of an Iceberg table: copy on write.

Every file that has one of the keys is written again without it. Which files can have one is known by the statistics
of their columns. PyIceberg's own upsert puts keys into expressions: five thousand of two columns take it more than a
minute, where a join takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rechannel.sinks.keyed_rows import without

FEW = 200
"""Of this many values PyIceberg still compares each with the statistics of a file."""


def upsert(
    transaction: Any, io: Any, given: pa.Table, keys: Sequence[str], gone: pa.Table | None = None
) -> None:
    """Add rows, whose keys differ, to a transaction of a table, and take those with the same keys away.

    gone: rows with other keys, of which rows are taken away, too.
    """
    from pyiceberg.io.pyarrow import _dataframe_to_data_files
    from pyiceberg.table import DataScan

    from rechannel.sinks.iceberg.replacing import Replacement

    metadata = transaction.table_metadata
    met = [given.select(keys), *([] if gone is None else [gone.select(keys)])]
    touched = pa.concat_tables(met)
    scan = DataScan(table_metadata=metadata, io=io, row_filter=_may_have(touched, keys))
    old, new = [], []
    for task in scan.plan_files():
        there = _read(task, metadata, io)
        kept = without(there, touched, keys)
        if kept.num_rows < there.num_rows:
            old.append(task.file)
            if kept.num_rows:
                new += _dataframe_to_data_files(table_metadata=metadata, df=kept, io=io)
    if not old:
        if given.num_rows:
            transaction.append(given)
        return
    if given.num_rows:
        new += _dataframe_to_data_files(table_metadata=metadata, df=given, io=io)
    with Replacement(transaction, io) as snapshot:
        for file in old:
            snapshot.delete_data_file(file)
        for file in new:
            snapshot.append_data_file(file)


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
