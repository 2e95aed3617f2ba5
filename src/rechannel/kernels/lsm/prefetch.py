"""Fetch state before it is needed: a task on the host that bins are going to move to calls this, and the first timestep
there finds in its host's cache what it reads.

Nothing depends on it. What was not fetched, or was thrown out again, is fetched when it is read.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rechannel.errors import MissingFileError
from rechannel.kernels.protocol.program import StageProgram
from rechannel.model.hashspace import Intervals
from rechannel.state.cache.fetch_time import fetched
from rechannel.state.manifest import Run
from rechannel.state.segments.segment import open_segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetched:
    """What one call did.

    bytes_fetched: from the shared store, heads and trailers of segments included. bytes_present: of the blocks behind
    the rows that were asked for, those that this host had; where the store has no cache, an estimate of all of them.
    ms: in all. requests: made to the shared store. runs: that hold some of the hashes. missing: of them, whose segments
    are gone; a newer version of the state has their rows in other segments.
    """

    bytes_fetched: int = 0
    bytes_present: int = 0
    ms: float = 0.0
    requests: int = 0
    runs: int = 0
    missing: int = 0

    def to_json(self) -> dict[str, int | float]:
        """Plain JSON values."""
        return asdict(self)


def prefetch(program: StageProgram, runs: Sequence[Run], intervals: Intervals) -> Prefetched:
    """Have the rows of runs in hash intervals in this host's cache: hashes, keys and state.

    Raises DamagedStateError for what is not what was written, also after it was fetched again, and StorageError when
    the shared store does not answer.
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
    """Bytes that were here already."""
    if getattr(program.store, "ranges", None) is None:
        return int(run.size * run.rows_in(where) / run.rows) if run.rows else 0
    before = fetched()
    wanted = open_segment(program.store, run.segment, run.digest).bring(where)
    return max(0, wanted - fetched().since(before).bytes)
