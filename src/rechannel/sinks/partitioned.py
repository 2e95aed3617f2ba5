"""Rows by the values of some columns: a directory for each, named as in Spark and Hive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NOTHING = "__HIVE_DEFAULT_PARTITION__"
"""The directory of rows whose value is null or an empty text."""

_PLAIN = " !$&(),-.;<>@_`|}~+"
"""Characters that are not encoded in names of directories, besides letters and digits."""


def parts_of(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield (directory, its rows without those columns), ordered by value; rows keep their order."""
    rest = batch.select([name for name in batch.schema.names if name not in columns])
    codes = np.zeros(batch.num_rows, dtype=np.int64)
    names: list[str] = [""]
    for column in columns:
        values = _texts(batch.column(column)).dictionary_encode()
        own = [f"{quote(column, safe=_PLAIN)}={_name(v)}" for v in values.dictionary.to_pylist()]
        codes = codes * len(own) + values.indices.to_numpy()
        used, codes = np.unique(codes, return_inverse=True)
        names = [f"{names[code // len(own)]}/{own[code % len(own)]}" for code in used.tolist()]
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(names) + 1))
    for name, start, stop in zip(names, ends[:-1], ends[1:], strict=True):
        yield name[1:], rest.take(pa.array(order[start:stop]))


def _texts(column: pa.Array) -> pa.Array:
    text = column.cast(pa.string())
    return pc.if_else(pc.equal(pc.fill_null(text, ""), ""), NOTHING, text)


def _name(value: str) -> str:
    return quote(value, safe=_PLAIN)
