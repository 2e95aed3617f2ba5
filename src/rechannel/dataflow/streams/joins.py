"""`join`: what the user says of two streams that meet, and what it means as nodes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from rechannel.dataflow.graph.durations import Duration, microseconds
from rechannel.dataflow.graph.naming import caller, given, keyed_name
from rechannel.dataflow.graph.nodes import Stateful
from rechannel.dataflow.streams.pairing import (
    On,
    both_sides,
    need_sides,
    operator_over,
    pairs_of,
    time_of,
)
from rechannel.errors import DataflowError
from rechannel.operators.join.logic import OUTER
from rechannel.operators.join.spec import Between, JoinSpec
from rechannel.operators.window.kinds import Timed, Windows
from rechannel.operators.window.logic import END, START

if TYPE_CHECKING:
    from rechannel.dataflow.streams.stream import Stream

How = Literal["inner", "left", "right", "full", "semi", "anti"]
KINDS = ("inner", "left", "right", "full", "semi", "anti")


def between(least: Duration, most: Duration) -> Between:
    """Match rows if right time - left time is in [least, most]: `rc.between("-10 seconds", 0)`.

    least, most: timedelta, text or milliseconds; a text may begin with '-'.
    """
    made = Between(least_us=_signed(least), most_us=_signed(most))
    if made.least_us > made.most_us:
        msg = f"rc.between({least!r}, {most!r}) is empty; give the smaller one first"
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
    need_sides(what, left.node, right.node, pairs, suffix)
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
    both = both_sides(settled, left.node, right.node, pairs, window=window, times=settled_times)
    return operator_over(both, settled, spec, tasks, bins)


def _check(what: str, how: str, within: Within | None, pairs: Mapping[str, str]) -> None:
    if how not in KINDS:
        msg = f"{what}: how must be one of {', '.join(KINDS)}, not {how!r}"
        raise DataflowError(msg)
    if within is not None and not isinstance(within, Between | Windows):
        msg = (
            f"{what}: within must be rc.between(...), rc.windows.tumbling(...) or rc.windows.sliding(...),"
            f" not {within!r}"
        )
        raise DataflowError(msg)
    if isinstance(within, Windows) and not isinstance(within, Timed):
        msg = (
            f"{what}: windows of a join have one length; use rc.windows.tumbling,"
            " rc.windows.sliding or rc.between"
        )
        raise DataflowError(msg)
    if within is None and (how in OUTER or how == "anti"):
        msg = (
            f"{what}: how={how!r} emits rows without a match, which are known only when event time has passed all that"
            " could match; use within=rc.between(...) or within=rc.windows.tumbling(...)"
        )
        raise DataflowError(msg)
    if isinstance(within, Timed) and {START, END} & {*pairs, *pairs.values()}:
        msg = f"{what}: a key is called {START!r} or {END!r}, as columns of the window are; rename the key"
        raise DataflowError(msg)
