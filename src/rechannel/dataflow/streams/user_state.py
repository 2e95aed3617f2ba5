"""The operators of a keyed stream whose state a user's function keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from rechannel.dataflow.checks.dead import has_dead_letters
from rechannel.dataflow.graph.durations import Duration, milliseconds
from rechannel.dataflow.graph.naming import caller
from rechannel.dataflow.graph.nodes import Node, Preload
from rechannel.dataflow.graph.timing import declared_column
from rechannel.dataflow.streams.former import renamed
from rechannel.dataflow.streams.processed import Downstream, Processed
from rechannel.errors import DataflowError
from rechannel.kernels.functions.dead_letters import OnError
from rechannel.model.ddl import schema_of
from rechannel.operators.process.track import Expired, ExpiredBatches, Update, UpdateBatches
from rechannel.operators.process.track import Initialise as InitState
from rechannel.operators.process.track_spec import TrackBatchesSpec, TrackSpec
from rechannel.operators.spec import OperatorSpec


class UserState(Processed[Downstream]):
    """The operators of `KeyedStream` that call a function with the state of a key."""

    __slots__ = ()

    if TYPE_CHECKING:
        node: Node

        def _operator(
            self,
            spec: OperatorSpec,
            name: str | None,
            tasks: int | None,
            bins: int | None,
            preload: Preload | None,
        ) -> Downstream:
            """Make the stream that an operator returns."""

    @renamed(on="time_column", initialise="init_state", initial="preload")
    def track(  # noqa: PLR0913 - as many as there are things to say
        self,
        update: Update,
        *,
        state: pa.Schema | str,
        init_state: InitState | None = None,
        timeout: Duration | None = None,
        time: Literal["processing", "event"] = "processing",
        time_column: str | None = None,
        expired: Expired | None = None,
        on_error: OnError = "fail",
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
        preload: Preload | None = None,
    ) -> Downstream:
        """Keep state per key with a Python function.

        Emits key and state of every key that received rows and was not dropped.

        Args:
            update: (key, state, rows) -> new state, or None to drop the key. State is a scalar if it has
                one column, else a NamedTuple; None for a key without state. `rows["price"]` is the list
                of the key's values in stream order.
            state: columns of the state, such as "n BIGINT, total DOUBLE".
            init_state: (key, first row) -> state: takes the first row of a key without state.
            timeout: drop a key that received no rows for longer.
            time: what `timeout` refers to. "processing" = the time of timesteps. "event" = a key is
                dropped when the watermark is `timeout` beyond its latest row; rows that are older than
                that, and rows without a time, are in `.late`.
            time_column: event times; None = as declared with `event_time`.
            expired: (key, state) -> the state to emit for a key that the timeout drops, or None to emit
                nothing. A timestep without rows is started for it if necessary.
            on_error: "fail" = the timestep fails; "dead_letter" = if a function fails for a key, the
                key's rows of this timestep are in `.dead_letters`, and its state does not change.
            name, tasks, bins: see `KeyedStream`.
            preload: makes a DataFrame of state to start from.
        """
        has_dead_letters("track", on_error)
        spec = TrackSpec(
            update=update,
            state=schema_of(state),
            initialise=init_state,
            timeout_ms=milliseconds(timeout),
            on=self._timed_by("track", time, time_column, timeout),
            expired=expired,
            on_error=on_error,
        )
        return self._operator(spec, name, tasks, bins, preload)

    @renamed(on="time_column", initial="preload")
    def track_batches(  # noqa: PLR0913 - as many as there are things to say
        self,
        update: UpdateBatches,
        *,
        state: pa.Schema | str,
        timeout: Duration | None = None,
        time: Literal["processing", "event"] = "processing",
        time_column: str | None = None,
        expired: ExpiredBatches | None = None,
        on_error: OnError = "fail",
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
        preload: Preload | None = None,
    ) -> Downstream:
        """Keep state per key with a vectorised function: one call for all changed keys of a task.

        Args:
            update: (KeyedFrame) -> state columns as a RecordBatch, polars DataFrame or dict of arrays;
                row i belongs to key i. A boolean column `_drop` marks the keys to drop. The result for
                a key must not depend on the other keys in the frame, which change with the number of
                tasks.
            state: columns of the state.
            timeout, time, time_column: as in `track`.
            expired: (KeyedFrame without rows) -> state columns to emit, or None to emit nothing; `_drop`
                marks keys for which nothing is emitted.
            on_error: as in `track`; a function that fails is called for halves of the keys, down to
                single ones.
            name, tasks, bins: see `KeyedStream`.
            preload: makes a DataFrame of state to start from.
        """
        has_dead_letters("track_batches", on_error)
        spec = TrackBatchesSpec(
            update=update,
            state=schema_of(state),
            timeout_ms=milliseconds(timeout),
            on=self._timed_by("track_batches", time, time_column, timeout),
            expired=expired,
            on_error=on_error,
        )
        return self._operator(spec, name, tasks, bins, preload)

    def _timed_by(
        self, operator: str, time: str, time_column: str | None, timeout: Duration | None
    ) -> str | None:
        """Return the column of event times that a timeout refers to; None = the time of timesteps."""
        what = f"{operator} ({caller()})"
        if time not in ("event", "processing"):
            msg = f"{what}: time must be 'event' or 'processing', not {time!r}"
            raise DataflowError(msg)
        if time == "processing" and time_column is None:
            return None
        if time == "processing" or timeout is None:
            msg = f"{what}: time= and time_column= say by which times a timeout= goes; time_column= is for time='event'"
            raise DataflowError(msg)
        column = declared_column(self.node) if time_column is None else time_column
        if column is None:
            msg = f"{what} needs a column of event times: name it with time_column= or event_time('column')"
            raise DataflowError(msg)
        return column
