"""`track` and `track_batches` as values: the user's functions, the state that they keep, and when a key ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.kernels.functions.dead_letters import MayDivide
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.kernels.shuffle.watermarks import need_time
from rechannel.model.ddl import columns_text
from rechannel.operators.checks import need_callable, split_keys
from rechannel.operators.process.timers import Timer
from rechannel.operators.process.track import (
    Initialise,
    TrackBatchesLogic,
    TrackLogic,
    Update,
    UpdateBatches,
)
from rechannel.operators.spec import OperatorSpec


@dataclass(frozen=True, eq=False, kw_only=True)
class TrackingSpec(OperatorSpec, MayDivide):
    """State that a user's function keeps for each key, until the key ends: what `track` and `track_batches` share.

    Both understand each other's state. Digests in journals follow the order of fields: it never changes.
    """

    timeout_ms: int | None = None
    """Time without rows after which a key ends; None = never."""
    on: str | None = None
    """Column of event times; None = the timeout goes by the time of timesteps."""
    expired: Callable[..., Any] | None = None
    """Called for keys that end; None = they end without a row."""
    finished: bool = False
    """All rows are in the next timestep (batch): every timer fires there."""
    update: Callable[..., Any]
    """Called with the rows and the state; returns the new state."""
    state: pa.Schema
    """Columns of the state."""

    @property
    def one_row_per_key(self) -> bool:
        """Return True: what the function keeps of the key."""
        return True

    @property
    def unchanging(self) -> None:
        """Return None: the row of a key changes with its rows, and ends with it."""

    @property
    def kind(self) -> str:
        """Return the kind in one word."""
        return "track"

    @property
    def user_function(self) -> Callable[..., Any]:
        """Return what is called with the rows."""
        return self.update

    @property
    def runs(self) -> str:
        """Return what can be replaced."""
        return "a function"

    def with_function(self, function: Callable[..., Any]) -> OperatorSpec:
        """Return the operator with another function, which has to understand the same state."""
        return replace(self, update=function)

    def fingerprint(self) -> str:
        """Return the columns of the state, and which time is kept with it."""
        kept = "" if self.timeout_ms is None else "; timeout"
        timing = kept if self.fixed is None else f"; {self.fixed}"
        return f"track({columns_text(self.state)}{timing})"

    @property
    def needs_time(self) -> bool:
        """Whether timers go by the rows' own time."""
        return self.on is not None

    @property
    def processing(self) -> bool:
        """Whether keys that end by the time of timesteps are emitted."""
        return self.on is None and self.expired is not None

    @property
    def fixed(self) -> str | None:
        """Return by which time timers go: what was set by one says nothing of another."""
        if self.on is not None:
            return f"timers by {self.on}"
        return "timers of processing time" if self.processing else None

    def timer(self, schema: pa.Schema) -> Timer | None:
        """Return how timers are set, or None if keys have no timers. Raises DataflowError."""
        if self.fixed is None:
            return None
        if self.on is not None:
            need_time(self.on, schema)
        if self.timeout_ms is None:
            msg = "track needs a time after which keys end: give it with timeout="
            raise DataflowError(msg)
        return Timer(timeout_us=self.timeout_ms * 1_000, on=self.on, row_schema=schema)


@dataclass(frozen=True, eq=False, kw_only=True)
class TrackSpec(TrackingSpec):
    """State that a user's function keeps for each key, one call per key. See `track`."""

    update: Update
    """(key, state, rows) -> new state, or None to drop the key."""
    initialise: Initialise | None = None
    """(key, first row) -> state; None = `update` gets the first row too."""

    def __post_init__(self) -> None:
        """Check that the functions can be called."""
        need_callable(self.update, "track", "(key, state, rows) -> state")
        if self.initialise is not None:
            need_callable(self.initialise, "init_state of track", "(key, first row) -> state")
        if self.expired is not None:
            need_callable(self.expired, "expired of track", "(key, state) -> state to show")

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check names of keys and state. Raises DataflowError."""
        key_schema, values = split_keys(keys, schema)
        return TrackLogic(
            key_schema=key_schema,
            value_schema=values,
            fields=self.state,
            timeout_ms=self.timeout_ms,
            timer=self.timer(schema),
            update=self.update,
            initialise=self.initialise,
            expired=self.expired,
            on_error=self.on_error,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class TrackBatchesSpec(TrackingSpec):
    """State that a user's function keeps, one call for all changed keys of a task. See `track`."""

    update: UpdateBatches
    """(frame) -> state columns."""

    def __post_init__(self) -> None:
        """Check that the functions can be called."""
        need_callable(self.update, "track_batches", "(frame) -> state columns")
        if self.expired is not None:
            need_callable(self.expired, "expired of track_batches", "(frame) -> state columns")

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check names of keys and state. Raises DataflowError."""
        key_schema, values = split_keys(keys, schema)
        return TrackBatchesLogic(
            key_schema=key_schema,
            value_schema=values,
            fields=self.state,
            timeout_ms=self.timeout_ms,
            timer=self.timer(schema),
            update=self.update,
            expired=self.expired,
            on_error=self.on_error,
        )
