"""Keys whose timers go off: a task hands them to the operator together with the keys that received rows (`OnTimer`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.concatenate import joined, narrowed
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.sorting import group_rows, sort_index, take
from rechannel.kernels.lsm.lookup import OpenRun
from rechannel.kernels.lsm.merge import Rows, slices_of
from rechannel.kernels.lsm.runs import OpenRuns, halves
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.kernels.shuffle.receive import Received
from rechannel.kernels.tasks.measure import Measures
from rechannel.model.buffers import IntArray
from rechannel.model.eventtime import ENDED, Clock
from rechannel.model.hashspace import Intervals
from rechannel.state.run import Run

TimerOf = Callable[[Columns, Columns], IntArray | None]
"""(keys, state) -> the time of each row's timer; None if no row has one."""


@dataclass(frozen=True, slots=True)
class Waking:
    """One task in one timestep."""

    can: Capabilities
    own: Intervals
    """Hashes of the task, or of a part of it."""
    runs: OpenRuns
    """State of the previous timestep, newest first."""
    measures: Measures
    firsts: dict[str, int]
    """By segment that was read: the first later time for which a row of the task has a timer. Is added to."""
    processing: dict[str, int]
    """The same of timers of processing time, of an operator whose timers go by both."""

    def with_due(self, received: Received, clock: Clock) -> Received:
        """Return what was received, and without rows the other keys of which a timer may have gone off."""
        can, parts = self.can, list[Rows]()
        if (awaited := can.due_range(clock)) is not None:
            waiting = self.runs.waiting(*awaited)
            parts += self._due(waiting, *awaited, can.timer_of, self.firsts)
        if (awaited := can.processing_range(clock)) is not None:
            ringing = self.runs.ringing(*awaited)
            parts += self._due(ringing, *awaited, can.processing_timer_of, self.processing)
        parts = [part for part in parts if len(part)]
        return self._beside(received, parts) if parts else received

    def _due(
        self,
        runs: Sequence[tuple[Run, OpenRun]],
        after: int,
        until: int,
        timer_of: TimerOf,
        firsts: dict[str, int],
    ) -> Iterator[Rows]:
        """Yield the state rows that have a timer in (after, until]. Younger runs may say otherwise."""
        for run, opened in runs:
            pieces = slices_of(opened, self.own)
            self.measures.count("rows_read", sum(map(len, pieces)))
            for piece in pieces:
                timers = timer_of(*halves(self.can, piece))
                if timers is None:
                    continue
                later = int(timers[timers > until].min(initial=ENDED))
                firsts[run.segment] = min(firsts.get(run.segment, ENDED), later)
                yield piece.where((timers > after) & (timers <= until))

    def _beside(self, received: Received, parts: list[Rows]) -> Received:
        """Put the keys of state rows, each once, among those that were received. parts: the rows."""
        count = len(received.hashes)
        hashes = np.concatenate([received.hashes, *(part.hashes for part in parts)])
        keys = [
            joined([known, *(part.columns[i] for part in parts)])
            for i, known in enumerate(received.keys[: self.can.hashed])
        ]
        order = sort_index(hashes)
        groups, untangled = group_rows(hashes[order], take(keys, order))
        if untangled is not None:
            order = order[untangled]
        # The sort is stable: for a key that received rows, the first one of its group is what it received.
        firsts = order[groups.starts]
        came = firsts < count
        # The order of keys with one hash may be another now, so rows follow their keys.
        moved = firsts[came]
        sizes = np.zeros(len(firsts), dtype=np.int64)
        sizes[came] = received.groups.sizes[moved]
        values = received.values
        if not bool((moved[1:] > moved[:-1]).all()):
            starts = received.groups.starts[moved]
            shifts = np.repeat(starts - (np.cumsum(sizes[came]) - sizes[came]), sizes[came])
            values = take(values, np.arange(received.groups.rows, dtype=np.int64) + shifts)
        schema = pa.schema(list(self.can.logic.key_schema)[: self.can.hashed])
        return replace(
            received,
            keys=narrowed(take(keys, firsts), schema),
            hashes=hashes[firsts],
            values=values,
            groups=Groups(starts=np.cumsum(sizes) - sizes, rows=received.groups.rows),
        )
