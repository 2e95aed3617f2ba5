"""The operators of a keyed stream that are whatever a user's function does with rows, states and timers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

import pyarrow as pa

from rechannel.dataflow.checks.dead import has_dead_letters
from rechannel.dataflow.graph.naming import caller
from rechannel.dataflow.graph.rules import need_table
from rechannel.errors import DataflowError
from rechannel.kernels.functions.dead_letters import OnError
from rechannel.model.ddl import schema_of
from rechannel.operators.process.process import OnTimer, Process
from rechannel.operators.process.process_batches import ProcessBatches
from rechannel.operators.process.process_spec import ProcessBatchesSpec, ProcessSpec
from rechannel.operators.process.states import State
from rechannel.operators.spec import OperatorSpec

Downstream = TypeVar("Downstream")
"""The stream that an operator returns."""

Columns: TypeAlias = pa.Schema | str
TimeKind = Literal["event", "processing"]


class Processed(Generic[Downstream]):
    """The operators of `KeyedStream` that emit what a function says, of columns of their own."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _in_order_of(
            self,
            time_column: str | None,
            spec: OperatorSpec,
            name: str | None,
            tasks: int | None,
            bins: int | None,
            tables: Sequence[Any] = (),
        ) -> Downstream:
            """Make an operator that depends on the order of rows."""

    def process(  # noqa: PLR0913 - as many as there are things to say
        self,
        function: Process,
        *,
        schema: Columns,
        states: Mapping[str, State] | None = None,
        timers: Mapping[str, TimeKind] | None = None,
        on_timer: OnTimer | None = None,
        side_outputs: Mapping[str, Columns] | None = None,
        broadcast: Mapping[str, Downstream] | None = None,
        time_column: str | None = None,
        on_error: OnError = "fail",
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
    ) -> Downstream:
        """Call a Python function for each key with rows: it emits any rows, and keeps states and timers.

        Emits the key and the columns of `schema`.

        Args:
            function: (key, rows, context) -> the rows to emit, as a generator or a list, or None. A row is
                a tuple, a dict by column, or a value if there is one column. `rows` are those of the
                timestep, in stream order, as in `track`; `context` has the key's states, timers and side
                outputs (`rc.frames.Context`).
            schema: columns that the function emits, without the keys, such as "why STRING, total DOUBLE".
            states: name = `rc.states.value_state`, `list_state` or `map_state`.
            timers: name = "event" or "processing", the time that it goes by. A key has one timer of each
                name. They go off after the rows of a timestep, in the order of their times, those of event
                time before those of processing time. A timestep without rows is started for one of
                processing time.
            on_timer: (key, timer, context) -> rows, as `function`; called when a timer goes off, with its
                `name` and the time `at` which it was set to go off.
            side_outputs: name = columns, for `context.side_output(name, row)`; read with
                `.side_output(name)`. Rows that no stream reads are dropped.
            broadcast: name = the stream of an operator with one row per key, such as
                `rules.key_by("rule").latest()`. All tasks read its whole table, as of the timestep, with
                `context.broadcast(name)`, a mapping from key to row. 64 MiB at most.
            time_column: event times: rows wait until the watermark passes them, and the function is called
                for the rows of one time after the other, timers in between. What is emitted then does not
                depend on how rows are cut into timesteps; late rows are in `.late`. None = stream order.
            on_error: "fail" = the timestep fails; "dead_letter" = if `function` fails for a key, the key's
                rows of this timestep are in `.dead_letters`, and nothing else comes of them.
            name, tasks, bins: see `KeyedStream`.

        Raises:
            DataflowError: names, columns or times do not fit.
        """
        has_dead_letters("process", on_error)
        spec = ProcessSpec(
            function=function,
            on_timer=on_timer,
            on_error=on_error,
            on=time_column,
            **declared(schema, states, timers, side_outputs, broadcast),
        )
        tables = list(streams_of(broadcast).values())
        return self._in_order_of(time_column, spec, name, tasks, bins, tables)

    def process_batches(  # noqa: PLR0913 - as many as there are things to say
        self,
        function: ProcessBatches,
        *,
        schema: Columns,
        states: Mapping[str, State] | None = None,
        timers: Mapping[str, TimeKind] | None = None,
        on_timer: ProcessBatches | None = None,
        side_outputs: Mapping[str, Columns] | None = None,
        broadcast: Mapping[str, Downstream] | None = None,
        on_error: OnError = "fail",
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
    ) -> Downstream:
        """Do what `process` does with a vectorised function: one call for all keys of a task that have rows.

        Args:
            function: (frame) -> the rows to emit, as a RecordBatch, polars DataFrame or dict of arrays, with
                `_key`, the number of a row's key, unless they are one row per key; or None. The frame
                (`rc.frames.ProcessFrame`) has keys, rows and states as tables, and takes tables. What
                becomes of a key must not depend on the other keys in the frame, which change with the
                number of tasks.
            schema, states, timers, side_outputs, broadcast: as in `process`; side outputs are written with
                `frame.side_output(name, rows)`, and `frame.broadcast(name)` is a RecordBatch.
            on_timer: (frame) -> rows, as `function`; called for all keys whose timers go off, which are in
                `frame.timers`.
            on_error: as in `process`; a function that fails is called for halves of the keys, down to
                single ones.
            name, tasks, bins: see `KeyedStream`.

        Raises:
            DataflowError: names, columns or times do not fit.
        """
        has_dead_letters("process_batches", on_error)
        spec = ProcessBatchesSpec(
            function=function,
            on_timer=on_timer,
            on_error=on_error,
            **declared(schema, states, timers, side_outputs, broadcast),
        )
        tables = list(streams_of(broadcast).values())
        return self._in_order_of(None, spec, name, tasks, bins, tables)


def declared(
    schema: Columns,
    states: Mapping[str, State] | None,
    timers: Mapping[str, TimeKind] | None,
    side_outputs: Mapping[str, Columns] | None,
    broadcast: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the fields of a spec for what both flavours declare. Raises DataflowError."""
    for name, state in (states or {}).items():
        if not isinstance(state, State):
            msg = (
                f"process ({caller()}): state {name!r} is made by rc.states.value_state, list_state or map_state, not"
                f" {state!r}"
            )
            raise DataflowError(msg)
    return {
        "schema": schema_of(schema),
        "states": states or {},
        "timers": timers or {},
        "outputs": {name: schema_of(each) for name, each in (side_outputs or {}).items()},
        "broadcast": tuple(streams_of(broadcast)),
    }


def streams_of(broadcast: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the streams of broadcast inputs by name. Raises DataflowError where one has no operator with a table."""
    what = f"process ({caller()})"
    if broadcast is not None and not isinstance(broadcast, Mapping):
        msg = f"{what}: broadcast= takes streams by name, as in broadcast={{'rules': stream}}, not {broadcast!r}"
        raise DataflowError(msg)
    for name, stream in (broadcast or {}).items():
        keyed = isinstance(stream, Processed)  # its operator is still to come
        node = stream if keyed else getattr(stream, "node", stream)
        need_table(f"{what}: broadcast input {name!r}", node)
    return dict(broadcast or {})
