"""`OperatorSpec`: what a stateful operator computes, before the columns of its input are known.

An operator is a frozen dataclass on this class. It says what it is (`kind`), what its stored state depends on
(`fingerprint`), and makes executable logic of columns (`bind`). Everything else has an answer here that is right for an
operator which takes rows as they come and shows what became of a key at once; an operator overrides what differs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.kernels.protocol.logic import StatefulLogic

INSTEAD = "give the operator another name: it is then a new one, beside the old or in its place"
"""What to do where an operator cannot change as asked."""


INSERTS = "Use the stream itself, whose rows are all inserts"
"""What to do where an operator has no changelog because its rows never change."""


class OperatorSpec(ABC):
    """The base of all operators with state."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """One word: aggregate, reduce, track, ..."""

    @abstractmethod
    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check against the input's columns and become executable. Raises DataflowError."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A stable text that changes when stored state could no longer be understood."""

    @property
    def fixed(self) -> object:
        """What cannot change under the operator's name, whatever its new logic is; None = nothing."""
        return None

    @property
    def runs(self) -> str | None:
        """What of it can be replaced under a running stream, in words; None = nothing."""
        return None

    def replaced(self, logic: object, *, keyed: bool) -> OperatorSpec | None:
        """The operator with other logic under the same name; None for logic that it cannot run.

        logic: another operator, columns by name, or a function. keyed: whether its rows have a key beside their
        window. Raises RefusedError where the state that is stored forbids it.
        """
        if isinstance(logic, OperatorSpec):
            return logic
        if isinstance(logic, Mapping):
            return self.with_columns(logic, keyed=keyed)
        return self.with_function(logic) if callable(logic) else None

    def with_columns(self, columns: Mapping[str, Any], *, keyed: bool) -> OperatorSpec | None:
        """The operator that computes other columns; None (the default) if it cannot. See `replaced`."""
        del columns, keyed
        return None

    def with_function(self, function: Callable[..., Any]) -> OperatorSpec | None:
        """The operator that calls another function; None (the default) if it cannot. See `replaced`."""
        del function
        return None

    @property
    def irreplaceable(self) -> str | None:
        """Why no other logic can go on with what is stored, in a sentence; None = other logic may."""
        return None

    @property
    def user_function(self) -> Callable[..., Any] | None:
        """The user's function: the one that an import path can stand for. None = there is none."""
        return None

    @property
    def side_outputs(self) -> Mapping[str, pa.Schema]:
        """Side outputs by name, with their columns after the keys."""
        return {}

    def side_output_schema(self, name: str, keys: tuple[str, ...], schema: pa.Schema) -> pa.Schema:
        """Return the columns of a side output. schema: of the operator's input. Raises DataflowError."""
        if name not in self.side_outputs:
            known = ", ".join(self.side_outputs) or "none; declare it with side_outputs= of process"
            msg = f"there is no side output {name!r} (known: {known})"
            raise DataflowError(msg)
        return pa.schema([*(schema.field(key) for key in keys), *self.side_outputs[name]])

    @property
    def unchanging(self) -> str | None:
        """Why no row that it emits is replaced or withdrawn later, as the rest of a sentence; None = some are."""
        return f"it emits a row once, and neither replaces it nor takes it back. {INSERTS}"

    @property
    def one_row_per_key(self) -> bool:
        """Whether its state is a table with one row for each key, which can be a broadcast input of others."""
        return False

    @property
    def broadcast(self) -> tuple[str, ...]:
        """Names of its broadcast inputs: tables of other operators, which each of its tasks reads whole."""
        return ()

    # Time -----------------------------------------------------------------------------------------------------

    @property
    def needs_time(self) -> bool:
        """Whether every row must come with a declared event time."""
        return False

    @property
    def tells_late(self) -> bool:
        """Whether rows can come too late for it: those of event time, unless it takes rows whenever they come."""
        return self.needs_time

    @property
    def processing(self) -> bool:
        """Whether something is shown by the time of timesteps, also when no rows come."""
        return False

    @property
    def processing_beside(self) -> bool:
        """Whether it goes by the time of timesteps beside event time: its watermark is that of event time."""
        return False

    @property
    def finished(self) -> bool:
        """Whether all rows are in the next timestep, so that all that waits for processing time is shown there."""
        return False

    @property
    def timeout_ms(self) -> int | None:
        """After how long without rows a key ends; None = never."""
        return None

    @property
    def has_table(self) -> bool:
        """Whether the right one of its two inputs is a table, which has no part in event time."""
        return False

    @property
    def sorted_before(self) -> bool:
        """Whether the operator upstream sorts rows by event time for this one, and keeps those that come too late."""
        return False

    # Windows --------------------------------------------------------------------------------------------------

    @property
    def windows_us(self) -> int | None:
        """Length of the windows that rows come out of; None = there are none, or they have no one length."""
        return None

    @property
    def corrects(self) -> bool:
        """Whether a window that was shown may be shown again with another result."""
        return False
