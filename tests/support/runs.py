"""Runs written from plain rows: what look-ups, merges and stateful tasks read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from rechannel.kernels.lsm.lookup import OpenRun
from rechannel.model.hashing import hash_columns
from rechannel.model.hashspace import SPACE, HashArray, Intervals
from rechannel.state.run import Run
from rechannel.state.segments.segment import SegmentMeta, open_segment, write_segment
from rechannel.state.store import Store

Hash = Callable[[Sequence[pa.Array]], HashArray]

KEYS = pa.schema([("k", pa.string())])
STATE = pa.schema([("n", pa.int64()), ("s", pa.string())])


def weak(columns: Sequence[pa.Array]) -> HashArray:
    """Two bits of a hash: keys share it."""
    return hash_columns(columns) & np.uint64(SPACE - (SPACE >> 2))


def state_of(value: int) -> tuple[int, str | None]:
    """A state row that a number stands for: one column of each kind, with nulls among the strings."""
    return value, None if value % 3 == 0 else f"s{value}"


def write_run(
    store: Store,
    rows: Mapping[str | None, int | None],
    *,
    seq: int,
    clip: Intervals | None = None,
    level: int = 0,
    hashing: Hash = hash_columns,
) -> Run:
    """One segment and the run that names it. A value of None is a tombstone."""
    keys = list(rows)
    hashes = hashing([pa.array(keys, pa.string())]) if keys else np.empty(0, np.uint64)
    order = np.argsort(hashes, kind="stable")
    ordered = [keys[i] for i in order]
    states = [state_of(rows[key] or 0) for key in ordered]
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(ordered, pa.string()),
            pa.array([n for n, _ in states], pa.int64()),
            pa.array([s for _, s in states], pa.string()),
        ],
        schema=pa.schema([*KEYS, *STATE]),
    )
    dropped = np.array([rows[key] is None for key in ordered], dtype=np.bool_)
    meta = SegmentMeta(operator="op", timestep=seq, task=0, attempt="a", logic=1, schema="")
    name = f"segments/op/{seq}-{id(rows)}.arrow"
    written = write_segment(store, name, hashes[order], batch, meta, dropped=dropped)
    where = Intervals.everything() if clip is None else clip
    return Run(
        segment=name,
        clip=where,
        seq=seq,
        level=level,
        rows=len(rows),
        size=written.size,
        span=where.width,
        digest=written.digest,
    )


def opened(store: Store, runs: Sequence[Run]) -> list[OpenRun]:
    """Runs, newest first, as a task opens them."""
    ordered = sorted(runs, key=lambda run: -run.seq)
    return [OpenRun(open_segment(store, run.segment, run.digest), run.clip) for run in ordered]
