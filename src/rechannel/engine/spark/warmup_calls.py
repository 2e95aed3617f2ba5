"""What tasks do ahead of a change: fetch state to their host, and load programs into their worker."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from rechannel.engine.spark.calls import Shipped, settle
from rechannel.kernels.lsm.ahead import Errand, attend
from rechannel.kernels.shuffle.wire import SCHEMA
from rechannel.model.codec import encode
from rechannel.state.stores.shared import SharedStore

HOLD = 0.2
"""Seconds that a task goes on which starts a worker, so that the tasks beside it start others."""


@dataclass(frozen=True)
class FetchCall:
    """mapInArrow function: begin the errand of this partition's number on this host, or report its progress."""

    shipped: Shipped
    errands: tuple[Errand, ...]

    background: bool
    """False if workers end with their tasks: then the task itself fetches."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Numbers in, (number, JSON of `Attended`) out."""
        settle()
        program = self.shipped.program()
        store = program.store
        cache = store.directory_here if isinstance(store, SharedStore) else ""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                errand = self.errands[number]
                so_far = attend(program, errand, cache, background=self.background)
                progress = json.dumps(encode(so_far))
                yield pa.RecordBatch.from_pydict({"number": [number], "progress": [progress]})


@dataclass(frozen=True)
class LoadCall:
    """mapInArrow function: unpickle programs, so that the first timestep under them need not."""

    shipped: tuple[Shipped, ...]

    hold: float = 0.0
    """Seconds that the task goes on: `HOLD`, or 0 if any worker will do."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Anything in; one row of `SCHEMA` out, as the tasks of a stage do, with the names of the programs."""
        settle()
        for _ in batches:
            pass
        names = "".join(one.program().operator for one in self.shipped)
        time.sleep(self.hold)
        yield pa.RecordBatch.from_pydict({"p": [0], "blob": [names.encode()]}, schema=SCHEMA)
