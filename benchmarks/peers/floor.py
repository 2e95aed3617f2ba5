"""Count and sum per key in one process, over columns, without an engine: what the machine itself needs for a batch.

State is two columns beside the sorted keys, in memory, with every key in its place: nothing is distributed, nothing can
be reconfigured, and a crash loses all but the changed rows of each batch, which are written to a file.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from benchmarks.harness import Parameters
from benchmarks.measurements import BatchMeasurement

Longs = npt.NDArray[np.int64]


def run(parameters: Parameters) -> BatchMeasurement:
    """Take the files batch by batch, with a thread of polars per core of the machine."""
    source, out = Path(parameters["input"]), Path(parameters["scratch"])
    totals, seconds, rows = Totals(), [], []
    for number in range(parameters["batches"]):
        began = time.perf_counter()
        batch = pl.read_parquet(source / f"batch-{number:05d}-part-*.parquet")
        changed = totals.add(batch)
        changed.write_ipc(out / f"changed-{number}.arrow")
        seconds.append(time.perf_counter() - began)
        rows.append(len(batch))
    if int(totals.counts.sum()) != sum(rows):
        raise RuntimeError(f"{totals.counts.sum()} rows were counted of {sum(rows)}")
    return {"seconds": seconds, "rows": rows}


def _none() -> Longs:
    return np.empty(0, np.int64)


@dataclass
class Totals:
    """Count and sum of every key."""

    keys: Longs = field(default_factory=_none)
    """Ascending, shape (keys,)."""
    counts: Longs = field(default_factory=_none)
    sums: Longs = field(default_factory=_none)

    def add(self, batch: pl.DataFrame) -> pl.DataFrame:
        """Add rows of ``key`` and ``value``; return the keys that they change, ascending, with their new totals."""
        grouped = batch.group_by("key").agg(
            count=pl.len().cast(pl.Int64), total=pl.col("value").sum()
        )
        keys, counts, sums = (column.to_numpy() for column in grouped.sort("key").get_columns())
        at = np.searchsorted(self.keys, keys)
        known = np.zeros(len(keys), bool)
        inside = at < len(self.keys)
        known[inside] = self.keys[at[inside]] == keys[inside]
        self.counts[at[known]] += counts[known]
        self.sums[at[known]] += sums[known]
        if not known.all():
            new = ~known
            self.keys, self.counts, self.sums = (
                np.insert(column, at[new], values[new])
                for column, values in (
                    (self.keys, keys),
                    (self.counts, counts),
                    (self.sums, sums),
                )
            )
            at = np.searchsorted(self.keys, keys)
        return pl.DataFrame({"key": keys, "count": self.counts[at], "total": self.sums[at]})
