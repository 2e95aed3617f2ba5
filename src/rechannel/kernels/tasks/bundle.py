"""Several tasks of one operator that run in one task of Spark, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

import pyarrow as pa

from rechannel.kernels.shuffle.receive import Filling
from rechannel.kernels.shuffle.spool import Spool
from rechannel.kernels.shuffle.wire import addressed, to_batches
from rechannel.kernels.tasks.measure import Measures
from rechannel.kernels.tasks.stateful_task import IN_HAND, StatefulTask


@dataclass(frozen=True)
class Bundle:
    """Tasks of one operator in one timestep, each with what was sent to it."""

    tasks: Sequence[StatefulTask]
    """At least one."""
    first: int
    """Partition of the exchange that task 0 of the operator reads."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Turn the (partition, blob) rows for all tasks into those that they make. The first task waits for all."""
        yield from to_batches(self.parcels(batches))

    def parcels(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
        """Turn (partition, blob) rows into pairs of a partition and a blob, as `run` does."""
        measures = Measures()
        with ExitStack() as open_:
            spools = [open_.enter_context(closing(Spool())) for _ in self.tasks]
            filling = {
                self.first + task.task: Filling(
                    spool, task.step.memory // IN_HAND // len(self.tasks)
                )
                for task, spool in zip(self.tasks, spools, strict=True)
            }
            for partition, blob in addressed(measures.waiting(batches)):
                filling[partition].add(blob)
            for place, (task, spool) in enumerate(zip(self.tasks, spools, strict=True)):
                inbox = filling.pop(self.first + task.task).inbox()
                yield from task.handled(inbox, spool, Measures() if place else measures)
