"""`apply_batches` as a value: any function of all rows of a key in a window or a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.kernels.protocol.two_sides import ROW
from rechannel.kernels.shuffle.watermarks import need_time
from rechannel.operators.checks import split_keys
from rechannel.operators.process.track_frame import KEY
from rechannel.operators.spec import OperatorSpec
from rechannel.operators.window.closing import ClosingSessionSpec
from rechannel.operators.window.group_frame import ApplyBatches
from rechannel.operators.window.groupwise import ApplyLogic
from rechannel.operators.window.logic import END, START
from rechannel.operators.window.session_apply import ApplySessionLogic
from rechannel.operators.window.session_rows import KeptRows
from rechannel.operators.window.sessions import FIRST, LAST


@dataclass(frozen=True, eq=False, kw_only=True)
class ApplyingSpec(OperatorSpec):
    """A function of all rows of a key, in whatever makes them belong together."""

    function: ApplyBatches
    schema: pa.Schema
    """Columns that the function returns."""

    def __post_init__(self) -> None:
        """Check that it can be called."""
        need_function(self.function, "(frame) -> rows")

    @property
    def kind(self) -> str:
        """Return the kind in one word."""
        return "apply"

    @property
    def user_function(self) -> ApplyBatches:
        """Return the user's function, which receives the rows."""
        return self.function

    @property
    def runs(self) -> str:
        """Return what can be replaced."""
        return "a function"

    def with_function(self, function: Callable[..., Any]) -> OperatorSpec:
        """Return the operator with another function, which understands the same state."""
        return replace(self, function=function)


@dataclass(frozen=True, eq=False, kw_only=True)
class ApplySpec(ApplyingSpec):
    """What a function makes of all rows of a key in a window. See `groupwise`."""

    window_us: int
    """Length of a window."""
    offset_us: int | None
    """Windows begin at this time after 1970 and every `window_us`; None = at other times too."""
    column: str
    """Event times."""
    every_us: int | None = None
    """Microseconds between the starts of two windows, if a row comes once for each of its windows."""

    @property
    def needs_time(self) -> bool:
        """Windows are complete when event time says so."""
        return True

    @property
    def windows_us(self) -> int:
        """Length of its windows."""
        return self.window_us

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check names of keys and of what the function answers. Raises DataflowError."""
        need_free(self.schema, (*keys, END))
        if ROW.name in schema.names:
            msg = f"input column {ROW.name!r} is reserved for state; rename it before apply_batches"
            raise DataflowError(msg)
        hidden = (END,) if self.offset_us is None else (START, END)
        return ApplyLogic(
            keys=pa.schema([schema.field(key) for key in keys]),
            rows=pa.schema([f for f in schema if f.name not in (*keys, END)]),
            row_schema=pa.schema([f for f in schema if f.name not in hidden]),
            function=self.function,
            fields=self.schema,
            window_us=self.window_us,
            offset_us=self.offset_us,
        )

    def fingerprint(self) -> str:
        """Return what the meaning of stored rows depends on."""
        return f"apply({self.fixed})"

    @property
    def fixed(self) -> str:
        """Which windows there are."""
        every = "" if self.every_us is None else f" every {self.every_us}"
        return f"{self.window_us} from {self.offset_us}{every} of {self.column}"


@dataclass(frozen=True, eq=False, kw_only=True)
class ApplySessionSpec(ApplyingSpec, ClosingSessionSpec):
    """What a function makes of all rows of a key in a session. See `session_apply`, and `SessionSpec` for fields."""

    gap_us: int
    on: str | None
    lateness_us: int = 0
    on_close: bool = True
    early_ms: int | None = None
    finished: bool = False

    @property
    def unchanging(self) -> str:
        """Return why there is no changelog, even where sessions are emitted again."""
        return (
            "its function returns any number of rows for a session, and nothing tells which row replaces which. Use"
            " window(...).aggregate(...)"
        )

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check names of keys and of what the function answers. Raises DataflowError."""
        need_free(self.schema, (*keys, START, END))
        for name in (START, END, FIRST.name, LAST.name):
            if name in keys:
                msg = (
                    f"key column {name!r} is reserved for sessions; rename it before apply_batches"
                )
                raise DataflowError(msg)
        if self.on is not None:
            need_time(self.on, schema)
        key_schema, others = split_keys(keys, schema)
        return ApplySessionLogic(
            inner=KeptRows(key_schema=key_schema, value_schema=others),
            row_schema=schema,
            on=self.on,
            gap_us=self.gap_us,
            lateness_us=self.lateness_us,
            on_close=self.on_close,
            early_ms=self.early_ms,
            function=self.function,
            fields=self.schema,
        )

    def fingerprint(self) -> str:
        """Return what the meaning of stored rows depends on."""
        return f"apply({self.fixed})"

    @property
    def fixed(self) -> str:
        """What makes a session."""
        kind = "processing" if self.on is None else f"by {self.on}"
        early = "" if self.early_ms is None else ", early"
        return f"sessions of {self.gap_us} {kind}, {self.lateness_us}{early}"


def need_function(function: object, shape: str) -> None:
    """Raise DataflowError for what cannot be called."""
    if not callable(function):
        msg = f"apply_batches needs a function {shape}, not {type(function).__name__}"
        raise DataflowError(msg)


def need_free(schema: pa.Schema, taken: Sequence[str]) -> None:
    """Raise DataflowError if a declared output column has a name that the operator adds itself."""
    for name in schema.names:
        if name in (*taken, KEY):
            why = "tells which key a row is of" if name == KEY else "is shown in front of them"
            msg = f"apply_batches: column {name!r} {why}; leave it out of schema="
            raise DataflowError(msg)
