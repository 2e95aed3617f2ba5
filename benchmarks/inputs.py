"""Input for the throughput benchmarks: Parquet files, the same bytes from the same seed.

Batch b consists of the files ``batch-<b>-part-<f>.parquet``. Their modification times grow with b
and f, because file sources hand out files in that order.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = "key LONG, value LONG"
VALUES = 1_000
OLDEST = 1_700_000_000
"""Modification time of the first batch, in seconds since 1970; each batch is a second younger."""


def write_keyed_batches(
    directory: Path, *, rows: int, keys: int, batches: int, files: int, seed: int
) -> None:
    """Write `batches` batches of `rows` rows in `files` files each: an int64 key that is uniform
    over ``0 <= key < keys``, and an int64 value that is uniform over ``0 <= value < 1000``.
    """
    directory.mkdir(parents=True)
    for batch in range(batches):
        for part in range(files):
            count = rows * (part + 1) // files - rows * part // files
            path = directory / f"batch-{batch:05d}-part-{part}.parquet"
            table = keyed_rows(count, keys=keys, seed=(seed, batch, part))
            # Uniform keys gain nothing from a dictionary; building one only slows down readers.
            pq.write_table(table, path, use_dictionary=["value"])
            os.utime(path, (OLDEST, OLDEST + batch + part / 1_000))


def keyed_rows(rows: int, *, keys: int, seed: tuple[int, ...]) -> pa.Table:
    """A table of `rows` rows (key, value)."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "key": random.integers(0, keys, rows, dtype=np.int64),
            "value": random.integers(0, VALUES, rows, dtype=np.int64),
        }
    )


def batch_glob(batches: int) -> str:
    """A file name pattern for the files of the first `batches` batches."""
    names = ",".join(f"batch-{batch:05d}" for batch in range(batches))
    return f"{{{names}}}-part-*.parquet"
