"""Fetch state before it is needed: a task on the host that bins will move to calls `prefetch`, and the first timestep
there finds in the host's cache what it reads.

Correctness does not depend on it: state that was not fetched, or was evicted, is fetched when it is read.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rechannel.errors import MissingFileError
from rechannel.kernels.protocol.program import StageProgram
from rechannel.model.hashspace import Intervals
from rechannel.state.cache.fetch_time import fetched
from rechannel.state.run import Run
from rechannel.state.segments.segment import open_segment
from rechannel.state.store import RangedStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetched:
    """What one call did."""

    bytes_fetched: int = 0
    """From the shared store, with headers and trailers of segments."""
    bytes_present: int = 0
    """Bytes of the blocks wanted that this host had already; without a cache, an estimate of all of them."""
    ms: float = 0.0
    """Duration of the call."""
    requests: int = 0
    """Requests to the shared store."""
    runs: int = 0
    """Runs that hold some of the hashes."""
    missing: int = 0
    """Of these, runs whose segment is gone: a newer version of the state has their rows in other segments."""


def prefetch(program: StageProgram, runs: Sequence[Run], intervals: Intervals) -> Prefetched:
    """Bring the rows of runs in hash intervals, with hashes, keys and state, into this host's cache.

    Raises DamagedStateError for a block that is damaged even after it was fetched again, and StorageError if the
    shared store does not answer.
    """
    start, before = time.perf_counter(), fetched()
    met = [(run, run.clip.intersect(intervals)) for run in runs]
    met = [(run, where) for run, where in met if where]
    present, missing = 0, 0
    for run, where in met:
        try:
            present += _bring(program, run, where)
        except MissingFileError:
            missing += 1
    total = fetched().since(before)
    return Prefetched(
        bytes_fetched=total.bytes,
        bytes_present=present,
        ms=(time.perf_counter() - start) * 1e3,
        requests=total.requests,
        runs=len(met),
        missing=missing,
    )


def _bring(program: StageProgram, run: Run, where: Intervals) -> int:
    """Bring the rows of one run. Returns the bytes that were on this host already."""
    if not isinstance(program.store, RangedStore):
        return int(run.size * run.rows_in(where) / run.rows) if run.rows else 0
    before = fetched()
    wanted = open_segment(program.store, run.segment, run.digest, run.size).bring(where)
    return max(0, wanted - fetched().since(before).bytes)
