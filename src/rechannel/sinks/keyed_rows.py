"""Rows of which a place keeps one per key: the last one of a timestep. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rechannel.errors import DataflowError, RefusedError


def named(columns: str | Sequence[str]) -> tuple[str, ...]:
    """Return names of columns; one of them may be given by itself."""
    return (columns,) if isinstance(columns, str) else tuple(columns)


def check_keys(keys: Sequence[str], schema: pa.Schema, sink: str) -> None:
    """Raise DataflowError if a name is no column of the rows, or given twice."""
    for key in keys:
        if key not in schema.names:
            there = ", ".join(schema.names)
            raise DataflowError(f"sink {sink!r}: there is no column {key!r}; there are {there}")
    if len(set(keys)) != len(keys):
        raise DataflowError(f"sink {sink!r}: a column is named twice: {', '.join(keys)}")


def latest(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the last row of each key, in the order of these rows."""
    import polars as pl

    numbered = pl.DataFrame(
        {
            **{f"k{place}": pl.from_arrow(rows.column(key)) for place, key in enumerate(keys)},
            "row": pl.int_range(rows.num_rows, eager=True),
        }
    )
    by = [f"k{place}" for place in range(len(keys))]
    kept = numbered.unique(by, keep="last", maintain_order=True)["row"]
    return rows if len(kept) == rows.num_rows else rows.take(kept.to_arrow())


def without(there: pa.Table, given: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the rows that have none of the given keys, in their order. Rows without a key have none."""
    import polars as pl

    place = "/".join(keys) + "/"  # no key's own name
    mine = pl.DataFrame(given.select(keys))
    its = pl.DataFrame(there.select(keys))
    kept = its.with_row_index(place).join(mine, on=list(keys), how="anti", maintain_order="left")
    if len(kept) == there.num_rows:
        return there
    mask = pl.Series([False]).new_from_index(0, there.num_rows).scatter(kept[place], True)
    return there.filter(mask.to_arrow())


def check_no_nulls(batch: pa.RecordBatch | pa.Table, keys: Sequence[str], where: str) -> None:
    """Raise RefusedError if a key is null: a row without a key takes the place of none."""
    for key in keys:
        if batch.column(key).null_count:
            raise RefusedError(
                f"{where} is written by {', '.join(keys)}, and a row has no {key!r}: filter such rows out before"
            )
