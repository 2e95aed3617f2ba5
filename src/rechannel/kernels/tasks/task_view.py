"""What a handler of a control operation sees of the task that it runs in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import nlargest

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.sorting import take
from rechannel.kernels.lsm.scan import finished
from rechannel.kernels.protocol.control import (
    ControlMessage,
    HeavyKey,
    OperatorHandler,
    StateReader,
    TaskView,
)
from rechannel.kernels.protocol.program import StageProgram, StageStep
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.kernels.protocol.two_sides import MARK, RIGHT
from rechannel.kernels.shuffle.receive import Received
from rechannel.kernels.tasks.binned import Counts, bytes_per_bin
from rechannel.kernels.tasks.emit import Emitter
from rechannel.kernels.tasks.measure import Measures
from rechannel.model.buffers import IntArray
from rechannel.model.eventtime import NEVER, Clock


@dataclass
class Heaviest:
    """The keys of a task that received most rows. most: how many; 0 = none are looked for."""

    most: int = 0
    sided: bool = False
    """Whether the operator has two inputs: the first column of what it receives tells the side of a row."""
    keys: list[HeavyKey] = field(default_factory=list)

    def received(self, received: Received) -> None:
        """Count what a part of the task received. Parts have different keys."""
        count = min(self.most, received.groups.count)
        if not count:
            return
        sizes = received.groups.sizes
        top = np.sort(np.argpartition(-sizes, count - 1)[:count])
        columns = [column.to_pylist() for column in take(received.keys, top)]
        found = zip(
            zip(*columns, strict=True),
            received.hashes[top].tolist(),
            sizes[top].tolist(),
            self._by_side(received, top),
            strict=True,
        )
        keys = [
            HeavyKey(key=key, hash=hash_, rows=rows, rows_by_side=sides)
            for key, hash_, rows, sides in found
        ]
        self.keys = nlargest(self.most, [*self.keys, *keys], key=lambda k: (k.rows, -k.hash))

    def _by_side(self, received: Received, top: IntArray) -> list[tuple[int, int] | None]:
        """Return the rows of some keys by side."""
        if not self.sided:
            return [None] * len(top)
        sides = received.values[0].to_numpy(zero_copy_only=False)
        groups = received.groups
        bounds = zip(groups.starts[top].tolist(), groups.sizes[top].tolist(), strict=True)
        rights = [int((sides[start : start + size] == RIGHT).sum()) for start, size in bounds]
        return [
            (size - right, right)
            for size, right in zip(groups.sizes[top].tolist(), rights, strict=True)
        ]


def is_sided(can: Capabilities) -> bool:
    """Whether rows of two inputs reach an operator, told apart by their first column."""
    return bool(can.wire_schema(combined=False).names[:1] == [MARK.name])


@dataclass(frozen=True, kw_only=True)
class Viewed:
    """A task as the handlers of control operations see it. Called for each of them."""

    program: StageProgram
    step: StageStep
    task: int
    measures: Measures
    emitter: Emitter
    clock: Clock | None = None
    """None for a task of a source."""
    bin_rows: Counts | None = None
    heaviest: Sequence[HeavyKey] = ()
    latest_us: int = NEVER
    """The latest event time that the task's producers have sent."""

    def __call__(self, handler: OperatorHandler, message: ControlMessage) -> TaskView:
        """Return what a handler sees."""
        step, counts = self.step, self.measures.counts
        latest = max([self.latest_us, *self.emitter.latest.values()])
        runs = step.tasks[self.task].runs if step.tasks else ()
        return TaskView(
            operator=self.program.operator,
            task=self.task,
            timestep=step.timestep,
            stream_ms=step.stream_ms,
            blocking=message.blocking,
            rows_in=counts.get("rows_in", 0),
            rows_out=counts.get("rows_out", 0) or self.emitter.rows_offered,
            bytes_in=counts.get("bytes_in", 0),
            bytes_out=self.emitter.bytes_sent,
            keys=counts.get("keys", 0),
            ms=dict(self.measures.ms),
            bin_rows=None if self.bin_rows is None else self.bin_rows.copy(),
            bin_bytes=() if step.routing is None else bytes_per_bin(runs, step.routing),
            state_rows=sum(run.rows for run in runs),
            heaviest=self.heaviest[: handler.heaviest],
            event_time_lag_ms=None if latest == NEVER else step.stream_ms - latest / 1e3,
            read_state=self._state_reader() if handler.reads_state else None,
        )

    def _state_reader(self) -> StateReader | None:
        clock = self.clock
        if clock is None:
            return None
        state = self.step.tasks[self.task]
        size = sum(run.size for run in state.runs)

        def read() -> pa.RecordBatch:
            if size > self.step.memory:
                msg = (
                    f"the state of operator {self.program.operator!r}, task {self.task} has {size:,} bytes in files;"
                    f" a handler may read {self.step.memory:,} (the task's memory): run more tasks, or use job.state"
                )
                raise ValueError(msg)
            return finished(self.program, state, clock)

        return read
