"""Rows by the values of some columns: a directory for each, named as in Spark and Hive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NOTHING = "__HIVE_DEFAULT_PARTITION__"
"""The directory of rows whose value is null or an empty text."""

_ENCODED = {code: f"%{code:02X}" for code in (*range(1, 0x20), 0x7F, *map(ord, "\"#%'*/:=?\\{[]^"))}
"""Characters that names of directories have as two hex digits: those of Spark and Hive, which read each as one
character. Others, such as umlauts, are unchanged."""


def parts_of(
    batch: pa.RecordBatch, columns: Sequence[str], *, keep: bool = False
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield (directory, its rows without those columns), ordered by value; rows keep their order.

    keep: whether rows keep those columns, too.
    """
    names = [name for name in batch.schema.names if keep or name not in columns]
    rest = batch.select(names)
    codes = np.zeros(batch.num_rows, dtype=np.int64)
    paths: list[str] = [""]
    for column in columns:
        values = _texts(batch.column(column)).dictionary_encode()
        own = [f"{_name(column)}={_name(v)}" for v in values.dictionary.to_pylist()]
        codes = codes * len(own) + values.indices.to_numpy()
        used, codes = np.unique(codes, return_inverse=True)
        paths = [f"{paths[code // len(own)]}/{own[code % len(own)]}" for code in used.tolist()]
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(paths) + 1))
    for path, start, stop in zip(paths, ends[:-1], ends[1:], strict=True):
        yield path[1:], rest.take(pa.array(order[start:stop]))


def _texts(column: pa.Array) -> pa.Array:
    text = column.cast(pa.string())
    return pc.if_else(pc.equal(pc.fill_null(text, ""), ""), NOTHING, text)


def _name(value: str) -> str:
    return value.translate(_ENCODED)
