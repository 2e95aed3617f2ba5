"""`join` as a value."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.operators.join.columns import need_free_keys, sides_in
from rechannel.operators.join.logic import MATCHED, OUTER, JoinLogic
from rechannel.operators.spec import OperatorSpec
from rechannel.operators.window.kinds import Timed
from rechannel.operators.window.logic import END


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """How far the right row's event time may be from the left row's, both ends included."""

    least_us: int
    """Smallest right time - left time."""
    most_us: int
    """Largest right time - left time."""


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinSpec(OperatorSpec):
    """Pairs of rows of two streams. See `logic`."""

    how: str
    """inner, left, right, full, semi or anti."""
    on: tuple[tuple[str, str], ...] = ()
    """Names of the join keys, (left, right)."""
    within: Between | Timed | None = None
    """Which rows of a key match by their event times; None = all, and state is never dropped."""
    times: tuple[str, str] | None = None
    """Columns of event times, (left, right); None if no times are needed."""
    suffix: str = "_right"
    """Appended to columns of the right side whose name the left side has too."""

    @property
    def needs_time(self) -> bool:
        """Whether event time ends what rows can match."""
        return self.within is not None

    @property
    def windows_us(self) -> int | None:
        """Length of its windows, if it has any."""
        return None if self._windows is None else self._windows.size_us

    @property
    def _windows(self) -> Timed | None:
        """Windows in which rows meet."""
        return None if isinstance(self.within, Between) else self.within

    @property
    def kind(self) -> str:
        """Return the kind in one word."""
        return "join"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types of both sides. Raises DataflowError."""
        window = self._windows
        near = self.within if isinstance(self.within, Between) else None
        if self.how in OUTER:
            need_free_keys(keys, (MATCHED.name,))
        sides = sides_in(
            keys,
            schema,
            on=self.on,
            times=None if near is None else self.times,
            suffix=self.suffix,
            taken=() if window is None else (END,),
        )
        return JoinLogic(
            keys=pa.schema([schema.field(key) for key in keys]),
            left=sides.left,
            right=sides.right,
            slots=sides.slots,
            how=self.how,
            least_us=None if near is None else near.least_us,
            most_us=None if near is None else near.most_us,
            window_us=None if window is None else window.size_us,
            offset_us=None if window is None else window.anchor_us,
        )

    def fingerprint(self) -> str:
        """Return what the meaning of stored rows depends on."""
        return f"join({self.fixed})"

    @property
    def fixed(self) -> str:
        """Which rows match, and which are kept."""
        within = self.within if self._windows is None else self._windows.stored_as
        return f"{self.how} on {self.on}; {within}; {self.times}"
