"""Functions that Spark calls on workers: they turn a Spark task into a kernel task. No Spark import at the top."""

from __future__ import annotations

import gc
import hashlib
import pickle
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import rechannel.engine.spark.before_numpy  # noqa: F401 - has to come before numpy

# isort: split
import numpy as np
import pyarrow as pa

from rechannel.engine.stages.bundles import Bundles
from rechannel.kernels.functions.paths import path_of_uri
from rechannel.kernels.protocol.program import StageProgram, StageStep
from rechannel.kernels.shuffle.send import Order
from rechannel.kernels.tasks.bundle import Bundle
from rechannel.kernels.tasks.report import SparkTask
from rechannel.kernels.tasks.report_table import fold
from rechannel.kernels.tasks.source_task import SourceTask
from rechannel.kernels.tasks.stateful_task import StatefulTask
from rechannel.model.hashing import hash_columns
from rechannel.sources.reader import Split, SplitReader

_settled: list[bool] = []
_TASKS_TO_SETTLE = 4
_OBJECTS_AT_ONCE = 100_000
_programs: dict[str, StageProgram] = {}
_PROGRAMS_KEPT = 64


def settle() -> None:
    """Keep the garbage collector from what it would look at in vain, in the first tasks of a worker process.

    PySpark collects garbage after every task; with numpy, pyarrow and pandas loaded, each collection costs 12 to 25 ms
    of CPU. So what lives long is frozen. Once is not enough, because modules are still loaded while the first task
    runs. Within a task, Python looks at all young objects whenever there are 700 more, and at all others when these
    have grown by a quarter: a function that makes a value for each key would take a quarter longer.
    """
    gc.set_threshold(_OBJECTS_AT_ONCE)
    if len(_settled) < _TASKS_TO_SETTLE:
        gc.collect()
        gc.freeze()
        _settled.append(True)


@dataclass(frozen=True)
class Shipped:
    """A program as bytes that a worker unpickles once."""

    digest: str
    data: bytes

    @classmethod
    def of(cls, program: StageProgram) -> Shipped:
        """Pickle with cloudpickle: the program holds user functions."""
        from pyspark import cloudpickle

        data: bytes = cloudpickle.dumps(program)  # type: ignore[no-untyped-call]
        return cls(hashlib.sha256(data).hexdigest(), data)

    def program(self) -> StageProgram:
        """Return the program; this process unpickles it once."""
        known = _programs.get(self.digest)
        if known is None:
            if len(_programs) >= _PROGRAMS_KEPT:
                _programs.clear()
            known = pickle.loads(self.data)
            _programs[self.digest] = known
        return known


@dataclass(frozen=True)
class StatefulCall:
    """mapInArrow function of a stateful stage."""

    shipped: Shipped
    step: StageStep
    bundles: Bundles = ()
    """Tasks by the partition in which they run; () = each in the partition of its number."""
    first: int = 0
    """Partition of the exchange that task 0 reads; only bundles have to know."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take blobs, yield blobs."""
        settle()
        partition, attempt, origin = identity()
        made = partial(
            StatefulTask,
            program=self.shipped.program(),
            step=self.step,
            attempt=attempt,
            origin=origin,
        )
        if not self.bundles:
            yield from made(task=partition).run(batches)
        else:
            tasks = [made(task=number) for number in self.bundles[partition]]
            yield from Bundle(tasks, self.first).run(batches)


@dataclass(frozen=True)
class NativeSourceCall:
    """mapInArrow function of a source stage whose tasks read splits themselves: one input row per task."""

    shipped: Shipped
    step: StageStep
    reader: SplitReader
    splits: tuple[tuple[Split, ...], ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take task numbers, yield blobs."""
        settle()
        # Not the partition's number: partitions are numbered across the source stages that share an exchange.
        (number,) = (value for batch in batches for value in batch.column(0).to_pylist())
        _, attempt, origin = identity()
        task = SourceTask(
            program=self.shipped.program(),
            step=self.step,
            task=number,
            attempt=attempt,
            origin=origin,
        )
        yield from task.run(self._rows(number))

    def _rows(self, number: int) -> Iterator[tuple[Order, pa.RecordBatch]]:
        for split in self.splits[number]:
            for batch in self.reader.read(split):
                yield int(split["order"]), batch


FILE, BLOCK = "_rc_file", "_rc_block"
"""Hidden columns with the file and the block that a row of a file source comes from."""

_BLOCK_BITS = 44


@dataclass(frozen=True)
class FrameSourceCall:
    """mapInArrow function of a source stage after DataFrame functions."""

    shipped: Shipped
    step: StageStep
    order: str
    """Order of rows: "task" (any), "file" (by the hidden columns), or "rows".

    "rows" is for functions that lose the origin of rows: they are sorted by their own hash, the same in every run.
    """
    files: dict[str, int]
    """Number of each file by path, for the order "file"."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take rows, yield blobs."""
        settle()
        number, attempt, origin = identity()
        task = SourceTask(
            program=self.shipped.program(),
            step=self.step,
            task=number,
            attempt=attempt,
            origin=origin,
        )
        yield from task.run(self._rows(number, batches))

    def _rows(
        self, number: int, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[tuple[Order, pa.RecordBatch]]:
        schema = self.shipped.program().root.schema
        for batch in batches:
            if self.order == "task":
                yield number << _BLOCK_BITS, _typed(batch, schema)
            elif self.order == "rows":
                typed = _typed(batch, schema)
                # The hash of a key passes over nulls: (1, null) and (null, 1) would come as they arrive.
                hashes = hash_columns([*typed.columns, *(c.is_null() for c in typed.columns)])
                rows = np.argsort(hashes, kind="stable")
                yield hashes[rows], typed.take(pa.array(rows))
            else:
                yield from self._by_file(batch, schema)

    def _by_file(
        self, batch: pa.RecordBatch, schema: pa.Schema
    ) -> Iterator[tuple[Order, pa.RecordBatch]]:
        """Split a batch where the file or the block changes; rows of one block keep the file's order."""
        width = batch.num_columns
        files = batch.column(width - 2).dictionary_encode()
        numbers = np.array(
            [self.files[path_of_uri(path)] for path in files.dictionary.to_pylist()],
            dtype=np.uint64,
        )
        blocks = batch.column(width - 1).to_numpy(zero_copy_only=False).astype(np.uint64)
        places = (numbers[files.indices.to_numpy()] << np.uint64(_BLOCK_BITS)) + blocks
        typed = _typed(batch.select(list(range(width - 2))), schema)
        edges = np.flatnonzero(places[1:] != places[:-1]) + 1
        for start, stop in zip([0, *edges], [*edges, len(places)], strict=True):
            if start < stop:
                yield int(places[start]), typed.slice(start, stop - start)


@dataclass(frozen=True)
class FoldCall:
    """mapInArrow function that folds the reports of many tasks."""

    many: int
    """How many are."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take blobs of reports, yield fewer."""
        settle()
        yield from fold(batches, self.many)


def _typed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the planned schema (Spark's Arrow batches differ in nullability only)."""
    if batch.schema.equals(schema):
        return batch
    columns: list[Any] = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def identity() -> tuple[int, str, SparkTask]:
    """Return the task number, a globally unique name of this attempt, and Spark's ids of it."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        msg = "this function runs only inside a Spark task"
        raise RuntimeError(msg)
    stage, attempt = int(context.stageId()), int(context.taskAttemptId())
    name = f"{attempt}-{uuid.uuid4().hex[:12]}"
    return context.partitionId(), name, SparkTask(stage=stage, task=attempt)


def nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Consume batches and yield nothing: a mapInArrow function that Spark only plans."""
    for _ in batches:
        yield from ()
