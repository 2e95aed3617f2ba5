"""`process` as a value: the user's functions, the states, timers and side outputs that they use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.kernels.functions.dead_letters import MayDivide
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.operators.checks import need_callable
from rechannel.operators.process.process import OnTimer, Process, ProcessLogic
from rechannel.operators.process.process_batches import ProcessBatches, ProcessBatchesLogic
from rechannel.operators.process.states import State
from rechannel.operators.process.stored import ENTRY, STATE, UNTIL
from rechannel.operators.spec import OperatorSpec

KINDS = ("event", "processing")


@dataclass(frozen=True, eq=False, kw_only=True)
class ProcessingSpec(OperatorSpec, MayDivide):
    """A user's function with states and timers: what both flavours of `process` share."""

    function: Callable[..., Any]
    """Called with rows."""
    on_timer: Callable[..., Any] | None = None
    """Called for timers that go off."""
    schema: pa.Schema
    """Columns that it emits, after the keys."""
    states: Mapping[str, State]
    """By name."""
    timers: Mapping[str, str]
    """The kind of time of each timer: "event" or "processing"."""
    outputs: Mapping[str, pa.Schema]
    """Columns of each side output, after the keys."""
    on: str | None = None
    """Column of event times in whose order rows come; None = in the order of the stream."""
    finished: bool = False
    """All rows are in the next timestep (batch): every timer of processing time goes off there."""
    broadcast: tuple[str, ...] = field(default=(), metadata={"later": True})
    """Names of its broadcast inputs."""

    def __post_init__(self) -> None:
        """Check names, kinds and functions. Raises DataflowError."""
        for part in ("states", "timers", "outputs"):
            object.__setattr__(self, part, dict(getattr(self, part)))
            for name in getattr(self, part):
                need_name(name, part)
        for name in self.broadcast:
            need_name(name, "broadcast inputs")
        for name, kind in self.timers.items():
            if kind not in KINDS:
                msg = f"process: timer {name!r} goes by 'event' or 'processing' time, not {kind!r}"
                raise DataflowError(msg)
        if bool(self.timers) != (self.on_timer is not None):
            lacks = "on_timer=" if self.timers else "timers="
            msg = f"process: timers need both timers= and on_timer=, and {lacks} is missing"
            raise DataflowError(msg)

    @property
    def side_outputs(self) -> Mapping[str, pa.Schema]:
        """Return the side outputs by name."""
        return self.outputs

    @property
    def kind(self) -> str:
        """Return the kind in one word."""
        return "process"

    @property
    def user_function(self) -> Callable[..., Any]:
        """Return what is called with rows."""
        return self.function

    @property
    def runs(self) -> str:
        """Return what can be replaced."""
        return "a function"

    def with_function(self, function: Callable[..., Any]) -> OperatorSpec:
        """Return the operator with another function, which understands the same states."""
        return replace(self, function=function)

    def fingerprint(self) -> str:
        """Return what the meaning of stored rows depends on."""
        states = ", ".join(f"{name}: {state.text}" for name, state in self.states.items())
        return f"process({states}; {self.fixed})"

    @property
    def fixed(self) -> str:
        """Return whose order it is, and by which time timers go: what was done by one says nothing of another."""
        order = "by the stream" if self.on is None else f"by {self.on}"
        kinds = sorted(set(self.timers.values()))
        if len(kinds) > 1:
            # What runs say of the times of timers goes by which of them these are.
            trailing = sorted(n for n, kind in self.timers.items() if kind == "processing")
            return f"{order}; timers by event time, but {', '.join(trailing)} by processing time"
        return f"{order}; timers by {kinds[0]} time" if kinds else order

    @property
    def needs_time(self) -> bool:
        """Whether timers go by event time, all of them or some."""
        return "event" in self.timers.values()

    @property
    def tells_late(self) -> bool:
        """Whether rows are late: those are for the operator that sorts them, if one does."""
        return False

    @property
    def processing(self) -> bool:
        """Whether timers go by the time of timesteps, and none by event time."""
        return set(self.timers.values()) == {"processing"}

    @property
    def processing_beside(self) -> bool:
        """Whether some timers go by the time of timesteps, and others by event time."""
        return set(self.timers.values()) == set(KINDS)

    @property
    def sorted_before(self) -> bool:
        """In the order of event time, another operator sorts the rows."""
        return self.on is not None

    def bound(self, keys: tuple[str, ...], schema: pa.Schema) -> dict[str, Any]:
        """Return what the logic of both flavours is made of. schema: of the input. Raises DataflowError."""
        self.check_columns(keys)
        return {
            "keys": pa.schema([schema.field(key) for key in keys]),
            "row_schema": schema,
            "fields": self.schema,
            "states": self.states,
            "timers": self.timers,
            "sides": self.outputs,
            "on": self.on,
            "on_error": self.on_error,
        }

    def check_columns(self, keys: tuple[str, ...]) -> None:
        """Raise DataflowError for columns that have the name of a key, and keys with a name that is taken."""
        shown = {
            "schema=": self.schema,
            **{f"side output {n!r}": s for n, s in self.outputs.items()},
        }
        for what, schema in shown.items():
            for name in schema.names:
                if name in keys:
                    msg = f"process: {what} has a column {name!r}: keys are put in front, leave it out"
                    raise DataflowError(msg)
        for name in (*self.states, ENTRY.name, UNTIL.name, STATE.name, "_row"):
            if name in keys:
                what = "names a state" if name in self.states else "is reserved for state"
                msg = f"process: key column {name!r} also {what}; rename one of them"
                raise DataflowError(msg)


@dataclass(frozen=True, eq=False, kw_only=True)
class ProcessSpec(ProcessingSpec):
    """A function with states and timers, one call per key. See `process`."""

    function: Process
    on_timer: OnTimer | None = None

    def __post_init__(self) -> None:
        """Check names, kinds and functions. Raises DataflowError."""
        need_callable(self.function, "process", "(key, rows, context) -> rows")
        if self.on_timer is not None:
            need_callable(self.on_timer, "on_timer of process", "(key, timer, context) -> rows")
        ProcessingSpec.__post_init__(self)

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check names of keys and columns. Raises DataflowError."""
        return ProcessLogic(
            function=self.function, on_timer=self.on_timer, **self.bound(keys, schema)
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ProcessBatchesSpec(ProcessingSpec):
    """A function with states and timers, one call for all keys of a task. See `process_batches`."""

    function: ProcessBatches
    on_timer: ProcessBatches | None = None

    def __post_init__(self) -> None:
        """Check names, kinds and functions. Raises DataflowError."""
        need_callable(self.function, "process_batches", "(frame) -> rows")
        if self.on_timer is not None:
            need_callable(self.on_timer, "on_timer of process_batches", "(frame) -> rows")
        ProcessingSpec.__post_init__(self)

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check names of keys and columns. Raises DataflowError."""
        return ProcessBatchesLogic(
            function=self.function, on_timer=self.on_timer, **self.bound(keys, schema)
        )


def need_name(name: object, part: str) -> None:
    """Raise DataflowError for a name of a state, timer, side output or broadcast input that is no identifier."""
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
        msg = f"process: {part} have names of letters, digits and '_', which begin with a letter; not {name!r}"
        raise DataflowError(msg)
