"""Emit rows down the tree of branches: to user functions, sink-buffer files, and blobs for consumers."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from rechannel.errors import StorageError, UserFunctionError
from rechannel.kernels.functions.dead_letters import Dividing, Letters, divides
from rechannel.kernels.functions.expectations import Expect, Verdicts
from rechannel.kernels.functions.letter_rows import with_attempts
from rechannel.kernels.functions.resources import WithResource
from rechannel.kernels.functions.user_errors import placed
from rechannel.kernels.protocol.program import (
    CHANGES,
    DEAD,
    LATE,
    OUTPUT,
    Branch,
    StageProgram,
    StageStep,
)
from rechannel.kernels.shuffle.send import Channel, Order, Sender, chunk_bytes
from rechannel.kernels.shuffle.watermarks import EventTime, Latest, reported_inputs, watermark_blobs
from rechannel.kernels.tasks.measure import Measures
from rechannel.kernels.tasks.report import EXAMPLE, BufferFile, Emitted, Judged, Sent
from rechannel.kernels.tasks.sink_buffer import SinkBuffer
from rechannel.model.decoded import decoded
from rechannel.model.eventtime import NEVER
from rechannel.state.keys import sink_buffer_key
from rechannel.state.segments.rows_file import write_rows
from rechannel.state.store import Store

IN_HAND = 8
"""Rows for sink buffers stay in memory up to this fraction (1/8) of a task's memory, then go to disk."""

Parcels = Iterator[tuple[int, bytes]]


@dataclass
class Emitter:
    """Emits the rows of one task. Call `rows` any number of times, then `finish` once."""

    program: StageProgram
    step: StageStep
    task: int
    attempt: str
    measures: Measures
    _senders: dict[tuple[str, int], Sender] = field(default_factory=dict)
    _kept: SinkBuffer = field(default_factory=SinkBuffer)
    _latest: dict[str, int] = field(default_factory=dict)
    _judged: dict[str, Judged] = field(default_factory=dict)

    def rows(self, batch: pa.RecordBatch, order: Order) -> Parcels:
        """Yield blobs made of one batch of the root's rows. order: where the rows stand in the stream."""
        yield from self._down(self.program.root, batch, order)

    def late(self, batch: pa.RecordBatch, order: Order) -> Parcels:
        """Yield blobs made of rows that came too late for the root's operator."""
        yield from self._aside(self.program.root, LATE, batch, order)

    def received(self, rows: int) -> None:
        """Count rows that the root's operator received, if it may find some that it cannot handle."""
        if divides(self.program.logic):
            self._judge(self.program.root.node, Judged(rows=rows))

    def dead(self, letters: Letters, order: Order) -> Parcels:
        """Yield blobs made of rows that the root's operator could not handle."""
        yield from self._dead(self.program.root, letters, order)

    def side_output(self, name: str, batch: pa.RecordBatch, order: Order) -> Parcels:
        """Yield blobs made of a side output of the root's operator."""
        yield from self._aside(self.program.root, OUTPUT + name, batch, order)

    def changes(self, batch: pa.RecordBatch, order: Order) -> Parcels:
        """Yield blobs made of the changelog of the root's operator."""
        at = order if isinstance(order, int) else int(order[0]) if len(order) else 0
        for below in self.program.root.branches:
            if below.side == CHANGES and below.function is not None:
                for rows in _as_list(below.function(batch)):
                    yield from self._down(below, rows, at)

    def watermarks(self, own: Mapping[str, int]) -> Parcels:
        """Yield blobs that tell consumers the event time, after all rows.

        own: event times that the emitted rows do not show, such as watermarks of this operator, by time input,
        microseconds.
        """
        self._latest.update(own)
        names = reported_inputs(self.program.root, self.program.origins)
        yield from watermark_blobs(names, self.step.addresses, self._latest, self.producer)

    @property
    def producer(self) -> int:
        """What identifies the task among the producers of its consumers."""
        return (self.step.number << 20) | self.task

    @property
    def latest(self) -> Latest:
        """Latest event times that the task knows, by time input."""
        return self._latest

    @property
    def rows_offered(self) -> int:
        """Rows for consumers, before map-side combine."""
        return sum(sender.stats.offered for sender in self._senders.values())

    @property
    def bytes_sent(self) -> int:
        """Bytes sent to consumers."""
        return sum(sender.stats.size for sender in self._senders.values())

    def _down(self, branch: Branch, batch: pa.RecordBatch, order: Order) -> Parcels:
        if isinstance(branch.function, EventTime):
            latest = branch.function.latest(batch)
            if latest > self._latest.get(branch.node, NEVER):
                self._latest[branch.node] = latest
        if branch.sink_buffer and batch.num_rows:
            self._kept.add(branch.node, batch, self.step.memory // IN_HAND)
        for consumer in branch.consumers:
            address = self.step.addresses[consumer.operator, consumer.input]
            channel = Channel(
                operator=consumer.operator,
                input=consumer.input,
                first=address.first,
                routing=address.routing,
                can=consumer.can,
                combined=address.combined,
            )
            key = (consumer.operator, consumer.input)
            if key not in self._senders:
                most = chunk_bytes(self.step.memory)
                self._senders[key] = Sender(
                    channel, self.producer, chunk_bytes=most, repeats=self.step.repeats
                )
            sender = self._senders[key]
            with self.measures.activity("send"):
                parcels = list(sender.send(batch, order))
            yield from parcels
        for below in branch.branches:
            if below.side:
                continue
            if below.function is None:
                yield from self._down(below, batch, order)
                continue
            # The function may drop and add rows, so the result's only known place is where its input began.
            at = order if isinstance(order, int) else int(order[0]) if len(order) else 0
            made, letters = self._apply(below, batch)
            for piece in made:
                yield from self._down(below, piece, at)
            if letters is not None:
                yield from self._dead(below, letters, at)

    def _aside(self, branch: Branch, side: str, batch: pa.RecordBatch, order: Order) -> Parcels:
        """Yield blobs made of rows that leave a branch beside its own."""
        for below in branch.branches:
            if below.side == side:
                yield from self._down(below, batch, order)

    def _dead(self, branch: Branch, letters: Letters, order: Order) -> Parcels:
        self.measures.count("rows_dead", len(letters))
        self._judge(branch.node, Judged(bad=len(letters), example=example_of(letters)))
        if branch.replayed and isinstance(order, int):
            again = with_attempts(letters.offsets, len(letters), order)
            letters = replace(letters, offsets=again)
        rows = letters.batch(branch.node, self.step.timestep, branch.source)
        for below in branch.branches:
            if below.side == DEAD:
                yield from self._down(below, rows.select(below.schema.names), order)

    def _judge(self, node: str, judged: Judged) -> None:
        known = self._judged.get(node)
        self._judged[node] = judged if known is None else known.plus(judged)

    def _apply(
        self, branch: Branch, batch: pa.RecordBatch
    ) -> tuple[list[pa.RecordBatch], Letters | None]:
        """Return what a user's function makes of a batch, in the declared columns, and what it cannot handle."""
        run, function = partial(run_function, branch.node, branch.schema), branch.function
        with self.measures.activity("process"), placed(branch.node, self.step.timestep):
            if isinstance(function, Expect):
                return self._expected(branch, function.judged(batch), batch.num_rows)
            if divides(function) and isinstance(function, Dividing):
                self._judge(branch.node, Judged(rows=batch.num_rows))
                return function.divided(batch, run)
            return run(function, batch), None

    def _expected(
        self, branch: Branch, verdicts: Verdicts, rows: int
    ) -> tuple[list[pa.RecordBatch], Letters | None]:
        """Count bad rows that stay, as `_dead` counts those that leave."""
        stay = None if verdicts.leave else verdicts.bad
        bad = 0 if stay is None else len(stay)
        example = "" if stay is None else example_of(stay)
        judged = Judged(rows=rows, bad=bad, example=example, failed=verdicts.failed)
        self._judge(branch.node, judged)
        return [verdicts.rows], verdicts.bad if verdicts.leave else None

    def finish(self) -> Emitted:
        """Write the files of the sink buffer; return what was sent and buffered, for the report."""
        with self.measures.activity("outbox"):
            kept = {
                node: write_sink_buffer(
                    self.program.store,
                    sink_buffer_key(
                        operator=node,
                        timestep=self.step.timestep,
                        task=self.task,
                        attempt=self.attempt,
                    ),
                    batches,
                )
                for node, batches in self._kept.batches()
            }
            self._kept.close()
        sent = tuple(
            Sent(
                operator=operator,
                input=into,
                offered=sender.stats.offered,
                rows=sender.stats.sent,
                keys=sender.stats.keys,
                bytes=sender.stats.size,
            )
            for (operator, into), sender in self._senders.items()
        )
        return Emitted(
            sent=sent, buffered=kept, event_times=dict(self._latest), judged=self._judged
        )


def run_function(
    node: str, schema: pa.Schema, function: Any, batch: pa.RecordBatch
) -> list[pa.RecordBatch]:
    """Return what a user's function makes of a batch, in the declared columns. Raises UserFunctionError."""
    if isinstance(function, WithResource):
        function = partial(function.at, node)
    made = guarded(node, lambda: _as_list(function(batch)))
    return [p if p.schema.equals(schema) else conform(node, p, schema) for p in made]


def example_of(letters: Letters) -> str:
    """Return the first of some dead letters in a few words: the row, and what is wrong with it."""
    row, error = (str(each[0]) for each in (letters.rows, letters.errors))
    return f"{shortened(row, EXAMPLE)}: {shortened(error, EXAMPLE)}"


def shortened(text: str, most: int) -> str:
    """Return up to `most` characters of a text."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def guarded(node: str, call: Callable[[], Any]) -> Any:
    """Run a user's function. Raises UserFunctionError with the node's name and the user's own traceback."""
    try:
        return call()
    except (UserFunctionError, StorageError):  # of a store, or a registry, that does not answer
        raise
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        msg = f"the function of {node!r} raised {type(error).__name__}: {error}\n{text}"
        made = UserFunctionError(msg)
        made.raised = True
        raise made from error


def conform(node: str, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Reorder and cast a batch to the declared columns. Raises UserFunctionError that names what does not fit."""
    missing = [name for name in schema.names if name not in batch.schema.names]
    if missing:
        msg = (
            f"the function of {node!r} returned columns {batch.schema.names}, "
            f"but {missing} are declared; return them or change `schema=`"
        )
        raise UserFunctionError(msg)
    try:
        found = ((batch.column(batch.schema.get_field_index(f.name)), f.type) for f in schema)
        columns = [
            column if column.type.equals(kind) else decoded(column).cast(kind)
            for column, kind in found
        ]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        msg = f"the function of {node!r} returned {batch.schema}, declared is {schema}: {error}"
        raise UserFunctionError(msg) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def write_sink_buffer(store: Store, key: str, batches: list[pa.RecordBatch]) -> BufferFile:
    """Write rows to one Arrow file of the store, atomically."""
    size = write_rows(store, key, batches)
    rows = sum(batch.num_rows for batch in batches)
    return BufferFile(key=key, rows=rows, bytes=size)


def _as_list(made: Any) -> list[pa.RecordBatch]:
    if isinstance(made, pa.RecordBatch):
        return [made]
    if isinstance(made, pa.Table):
        return list(made.to_batches())
    return list(made)
