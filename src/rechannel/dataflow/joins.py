"""`join`: what the user says of two streams that meet, and what it means as nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from rechannel.dataflow.durations import Duration, microseconds
from rechannel.dataflow.graph import Stateful
from rechannel.dataflow.naming import caller, given, keyed_name
from rechannel.dataflow.operator_spec import OperatorSpec
from rechannel.dataflow.pairing import (
    On,
    both_sides,
    need_free_keys,
    need_sides,
    operator_over,
    pairs_of,
    sides_in,
    time_of,
)
from rechannel.dataflow.window_kinds import Timed, Windows
from rechannel.errors import DataflowError
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.operators.join.logic import MATCHED, OUTER, JoinLogic
from rechannel.operators.window.logic import END, START

if TYPE_CHECKING:
    from rechannel.dataflow.stream import Stream

How = Literal["inner", "left", "right", "full", "semi", "anti"]
KINDS = ("inner", "left", "right", "full", "semi", "anti")


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """By how much the right row's event time is beyond the left one's, in microseconds, both ends included."""

    least_us: int
    most_us: int


def between(least: Duration, most: Duration) -> Between:
    """Rows match if right time - left time is in [least, most]: `rc.between("-10 seconds", 0)`.

    least, most: timedelta, text or milliseconds; a text may begin with '-'.
    """
    made = Between(least_us=_signed(least), most_us=_signed(most))
    if made.least_us > made.most_us:
        msg = f"nothing is between {least!r} and {most!r}; give the smaller one first"
        raise DataflowError(msg)
    return made


def _signed(given_: Duration) -> int:
    if isinstance(given_, str) and given_.strip().startswith("-"):
        return -microseconds(given_.strip()[1:], "an end of between", least=0)
    if isinstance(given_, timedelta) and given_ < timedelta(0):
        return -microseconds(-given_, "an end of between", least=0)
    if isinstance(given_, int) and given_ < 0:
        return -microseconds(-given_, "an end of between", least=0)
    return microseconds(given_, "an end of between", least=0)


Within = Between | Timed


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinSpec(OperatorSpec):
    """Pairs of rows of two streams. See `kernels.join`.

    on: columns that are alike, left and right. times: columns of event times, left and right. suffix: ends names that
    both sides have.
    """

    how: str
    on: tuple[tuple[str, str], ...] = ()
    within: Within | None = None
    times: tuple[str, str] | None = None
    suffix: str = "_right"

    @property
    def needs_time(self) -> bool:
        """Whether event time ends what rows can match."""
        return self.within is not None

    @property
    def windows_us(self) -> int | None:
        """Length of its windows, if it has any."""
        return self.within.size_us if isinstance(self.within, Timed) else None

    @property
    def kind(self) -> str:
        """One word."""
        return "join"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types of both sides. Raises DataflowError."""
        window = self.within if isinstance(self.within, Timed) else None
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
        """What stored rows mean."""
        return f"join({self.fixed})"

    @property
    def fixed(self) -> str:
        """Which rows match, and which are kept."""
        within = self.within.stored_as if isinstance(self.within, Timed) else self.within
        return f"{self.how} on {self.on}; {within}; {self.times}"


def join(  # noqa: PLR0913 - the arguments of `Stream.join`
    left: Stream,
    right: Stream,
    on: On,
    *,
    how: How,
    within: Within | None,
    times: tuple[str | None, str | None],
    suffix: str,
    name: str | None,
    tasks: int | None,
    bins: int | None,
) -> Stateful:
    """The operator that pairs rows of two streams. Raises DataflowError, UnknownColumnError."""
    what = f"join ({caller()})"
    pairs = pairs_of(on, what)
    _check(what, how, within, pairs)
    need_sides(what, left, right, pairs, suffix)
    settled_times = None
    if within is None and times != (None, None):
        msg = (
            f"{what}: left_time_column= and right_time_column= are for joins within a time; add"
            " within=, such as within=rc.between(...)"
        )
        raise DataflowError(msg)
    if within is not None:
        settled_times = (
            time_of(left, times[0], "left", what),
            time_of(right, times[1], "right", what),
        )
    alike = tuple(pairs.items())
    spec = JoinSpec(how=how, on=alike, within=within, times=settled_times, suffix=suffix)
    settled = given(name, keyed_name(left.node, spec.kind, tuple(pairs)))
    window = within if isinstance(within, Timed) else None
    both = both_sides(settled, left, right, pairs, window=window, times=settled_times)
    return operator_over(both, settled, spec, tasks, bins)


def _check(what: str, how: str, within: Within | None, pairs: Mapping[str, str]) -> None:
    if how not in KINDS:
        msg = f"{what}: how is one of {', '.join(KINDS)}, not {how!r}"
        raise DataflowError(msg)
    if within is not None and not isinstance(within, Between | Windows):
        msg = f"{what}: within is rc.between(...), rc.windows.tumbling(...) or rc.windows.sliding(...), not {within!r}"
        raise DataflowError(msg)
    if isinstance(within, Windows) and not isinstance(within, Timed):
        msg = (
            f"{what}: windows of a join have one length; use rc.windows.tumbling,"
            " rc.windows.sliding or rc.between"
        )
        raise DataflowError(msg)
    if within is None and (how in OUTER or how == "anti"):
        msg = (
            f"{what}: which rows have no match is known only when event time has passed all that could match; say"
            " within=rc.between(...) or within=rc.windows.tumbling(...)"
        )
        raise DataflowError(msg)
    if isinstance(within, Timed) and {START, END} & {*pairs, *pairs.values()}:
        msg = f"{what}: a key has the name of a window's column; rename it"
        raise DataflowError(msg)
