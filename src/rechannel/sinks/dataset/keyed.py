"""Datasets with one row per key: what a timestep writes, how runs are merged, and which rows count. Pure.

A run is one or several files, written for one span of timesteps: sorted by key, at most one row per key. Two columns
say what the row is: `TIMESTEP`, in which its key last changed, and `GONE`, whether the key is gone since. The rows that
count are, for each key, the one of the latest timestep, unless it is gone.

Runs are merged as streams: of every run, one batch is held. What is not later than the first of the last keys of these
batches can be merged at once, since no run has more of these keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from rechannel.sinks.keyed_changes import Net, net
from rechannel.sinks.keyed_rows import check_no_nulls, latest

if TYPE_CHECKING:
    import polars as pl

TIMESTEP = "_rc_timestep"
GONE = "_rc_gone"
OWN = (pa.field(TIMESTEP, pa.int64(), False), pa.field(GONE, pa.bool_(), False))


def run_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a run."""
    return pa.schema([*schema, *OWN])


def run_of(
    rows: pa.Table, keys: Sequence[str], changes: str, timestep: int, where: str
) -> pa.Table:
    """Return what a timestep does, as a run.

    Raises RefusedError for a row without a key, or a word that is no change.
    """
    import polars as pl

    check_no_nulls(rows, keys, where)
    done = (
        net(rows, keys, changes, where)
        if changes
        else Net(present=latest(rows, keys), gone=rows.slice(0, 0))
    )
    parts = []
    for some, gone in ((done.present, False), (done.gone, True)):
        own = (
            pa.repeat(pa.scalar(timestep, pa.int64()), some.num_rows),
            pa.repeat(gone, some.num_rows),
        )
        parts.append(_with(some, own))
    run = pa.concat_tables(parts)
    order = pl.DataFrame(run.select(list(keys))).select(pl.arg_sort_by(list(keys))).to_series()
    return run.take(order.to_arrow())


def _with(table: pa.Table, own: Sequence[pa.Array]) -> pa.Table:
    for field, column in zip(OWN, own, strict=True):
        table = table.append_column(field, column)
    return table


def merged_runs(
    runs: Sequence[Iterator[pa.RecordBatch]], keys: Sequence[str], *, drop: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of runs as one run. drop: rows whose keys are gone, too: if no run is older than these."""
    import polars as pl

    streams = [_Stream(run, keys) for run in runs]
    while held := [each for each in streams if each.fill()]:
        until = pl.concat([each.keys.tail(1) for each in held]).sort(keys).head(1)
        taken = pa.Table.from_batches([each.take(until) for each in held])
        last = _last(taken, keys).sort(list(keys))
        counted = last.filter(~pl.col(GONE)) if drop else last
        if len(counted):
            yield from taken.take(counted[_ROW].to_arrow()).combine_chunks().to_batches()


def counting(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the rows of any runs that count, without the columns that are not the user's."""
    import polars as pl

    last = _last(rows, keys).filter(~pl.col(GONE)).sort(_ROW)
    mine = [name for name in rows.schema.names if name not in (TIMESTEP, GONE)]
    return rows.select(mine).take(last[_ROW].to_arrow())


_ROW = "_rc_row"


def _last(rows: pa.Table, keys: Sequence[str]) -> pl.DataFrame:
    """Return keys and numbers of the rows that have the latest timestep of their key, in any order."""
    import polars as pl

    numbered = pl.DataFrame(rows.select([*keys, TIMESTEP, GONE])).with_row_index(_ROW)
    return numbered.sort(TIMESTEP).unique(list(keys), keep="last", maintain_order=True)


class _Stream:
    """A run, of which one batch is held."""

    def __init__(self, batches: Iterator[pa.RecordBatch], names: Sequence[str]) -> None:
        self._batches, self._names = batches, list(names)
        self._rows: pa.RecordBatch | None = None
        self.keys: pl.DataFrame

    def fill(self) -> bool:
        """Hold a batch that is not empty; False if there is none."""
        import polars as pl

        while self._rows is None or not self._rows.num_rows:
            self._rows = next(self._batches, None)
            if self._rows is None:
                return False
            self.keys = pl.DataFrame(self._rows.select(self._names))
        return True

    def take(self, until: pl.DataFrame) -> pa.RecordBatch:
        """Take the rows up to a key, this one included, of the batch that is held. until: one row."""
        held = self._rows
        if held is None:
            raise RuntimeError("nothing is held")
        at = self.keys.select(_up_to(until).sum()).item()
        self._rows, self.keys = held.slice(at), self.keys.slice(at)
        return held.slice(0, at)


def _up_to(key: pl.DataFrame) -> pl.Expr:
    """Return the expression that rows are at most a key, compared column by column.

    The key is a row of a frame: as Python's values, times would lose their nanoseconds.
    """
    import polars as pl

    def one(rest: pl.Expr, column: pl.Series) -> pl.Expr:
        limit = pl.lit(column).first()
        return (pl.col(column.name) < limit) | ((pl.col(column.name) == limit) & rest)

    return reduce(one, reversed(key.get_columns()), pl.lit(True))
