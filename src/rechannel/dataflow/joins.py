"""`join`: what the user says of two streams that meet, and what it means as nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from rechannel.dataflow.durations import Duration, microseconds
from rechannel.dataflow.graph import MapBatches, Node, Paired, Stateful
from rechannel.dataflow.keyed import check_numbers
from rechannel.dataflow.naming import caller, given, keyed_name
from rechannel.dataflow.rules import need_columns, suggest
from rechannel.dataflow.schema import known
from rechannel.dataflow.timing import declared_column
from rechannel.dataflow.windowing import Windows
from rechannel.errors import DataflowError, UnknownColumnError
from rechannel.kernels.join import OUTER, JoinLogic
from rechannel.kernels.logic import StatefulLogic
from rechannel.kernels.marks import need_time
from rechannel.kernels.sides import LEFT, PREFIXES, RIGHT, Side, Sided, slots_of
from rechannel.kernels.windows import END, START, AssignWindows

if TYPE_CHECKING:
    from rechannel.dataflow.stream import Stream

How = Literal["inner", "left", "right", "full", "semi", "anti"]
KINDS = ("inner", "left", "right", "full", "semi", "anti")

On = str | Sequence[str] | Mapping[str, str]
"""Columns that are alike: one name, several, or names on the left to names on the right."""


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


Within = Between | Windows


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinSpec:
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
    def kind(self) -> str:
        """One word."""
        return "join"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types of both sides. Raises DataflowError."""
        others = schema.names[len(keys) + 1 :]
        names = [[n for n in others if n.startswith(PREFIXES[side])] for side in (LEFT, RIGHT)]
        left_slots, right_slots, slots = slots_of(
            *([schema.field(name) for name in side] for side in names)
        )
        shown = [plain_name(name) for name in names[LEFT]]
        taken = {*keys, *shown, *({END} if isinstance(self.within, Windows) else ())}
        right = [self._named(plain_name(name), taken) for name in names[RIGHT]]
        window = self.within if isinstance(self.within, Windows) else None
        near = self.within if isinstance(self.within, Between) else None
        return JoinLogic(
            keys=pa.schema([schema.field(key) for key in keys]),
            left=self._side(schema, names[LEFT], shown, left_slots, None if near is None else LEFT),
            right=self._side(
                schema, names[RIGHT], right, right_slots, None if near is None else RIGHT
            ),
            slots=slots,
            how=self.how,
            least_us=None if near is None else near.least_us,
            most_us=None if near is None else near.most_us,
            window_us=None if window is None else window.size_us,
            offset_us=None if window is None else window.offset_us,
        )

    def _named(self, name: str, taken: set[str]) -> str:
        named = name + self.suffix if name in taken else name
        if named in taken:
            msg = f"both sides have a column {name!r}, and {named!r} is there already; give another suffix="
            raise DataflowError(msg)
        taken.add(named)
        return named

    def _side(
        self,
        schema: pa.Schema,
        names: list[str],
        shown: list[str],
        slots: tuple[int, ...],
        timed: int | None,
    ) -> Side:
        fields = [schema.field(name).with_name(as_) for name, as_ in zip(names, shown, strict=True)]
        time = None
        if timed is not None and self.times is not None:
            column = self.times[timed]
            plain = [plain_name(name) for name in names]
            if column not in (*plain, *(pair[timed] for pair in self.on)):
                msg = f"there is no column {column!r} of event times{suggest(column, plain)}"
                raise UnknownColumnError(msg)
            if column not in plain:
                msg = (
                    f"column {column!r} of event times is a key of the join, so rows that match have the same time:"
                    " say within=rc.tumbling(...) instead"
                )
                raise DataflowError(msg)
            time = plain.index(column)
            need_time(names[time], schema)
        return Side(fields=pa.schema(fields), sources=tuple(names), slots=slots, time=time)

    def fingerprint(self) -> str:
        """What stored rows mean."""
        return f"join({self.fixed})"

    @property
    def fixed(self) -> str:
        """Which rows match, and which are kept."""
        return f"{self.how} on {self.on}; {self.within}; {self.times}"


def join(  # noqa: PLR0913 - the arguments of `Stream.join`
    left: Stream,
    right: Stream,
    on: On,
    *,
    how: How,
    within: Within | None,
    left_time: str | None,
    right_time: str | None,
    suffix: str,
    name: str | None,
    tasks: int | None,
    bins: int | None,
) -> Stateful:
    """The operator that pairs rows of two streams. Raises DataflowError, UnknownColumnError."""
    what = f"join ({caller()})"
    pairs = pairs_of(on, what)
    _check(what, how, within, pairs)
    sides = ((LEFT, left, list(pairs)), (RIGHT, right, list(pairs.values())))
    for _, stream, names in sides:
        schema = known(stream.node)
        if schema is not None:
            need_columns(what, names, schema)
    times = None
    if within is None and (left_time is not None or right_time is not None):
        msg = f"{what}: left_time and right_time say what within= goes by; say within=rc.between(...), for example"
        raise DataflowError(msg)
    if not isinstance(suffix, str):
        msg = f"{what}: suffix ends names: it is a text, not {suffix!r}"
        raise DataflowError(msg)
    if within is not None:
        times = (_time(left, left_time, "left", what), _time(right, right_time, "right", what))
    alike = tuple(pairs.items())
    spec = JoinSpec(how=how, on=alike, within=within, times=times, suffix=suffix)
    keys = tuple(pairs)
    settled = given(name, keyed_name(left.node, spec.kind, keys))
    nodes: list[Node] = []
    for side, stream, names in sides:
        node = stream.node
        own = list(zip(names, keys, strict=True))
        if isinstance(within, Windows) and times is not None:
            node = mapped(
                f"{settled}.{PREFIXES[side]}windows",
                node,
                AssignWindows(
                    column=times[side], size_us=within.size_us, offset_us=within.offset_us
                ),
            )
            own.append((START, START))
        nodes.append(
            mapped(f"{settled}.{PREFIXES[side]}rows", node, Sided(side=side, keys=tuple(own)))
        )
    keys = (*keys, START) if isinstance(within, Windows) else keys
    both = Paired(name=f"{settled}.sides", where=caller(), inputs=tuple(nodes), keys=keys)
    made = Stateful(
        name=settled,
        where=caller(),
        upstream=both,
        keys=keys,
        spec=spec,
        tasks=tasks,
        bins=bins,
    )
    check_numbers(made)
    return made


def mapped(name: str, node: Node, function: AssignWindows | Sided) -> MapBatches:
    """Rows of a side on their way to the operator."""
    return MapBatches(name=name, where=caller(), upstream=node, function=function, schema=None)


def pairs_of(on: On, what: str) -> dict[str, str]:
    """Names on the left to names on the right."""
    pairs: dict[str, str] = {}
    if isinstance(on, str):
        pairs = {on: on}
    elif isinstance(on, Mapping):
        pairs = dict(on)
    elif isinstance(on, Sequence):
        pairs = {name: name for name in on}
    if not pairs or not all(isinstance(n, str) for n in (*pairs, *pairs.values())):
        msg = f"{what}: say which columns are alike, as in on='id' or on={{'auction': 'id'}}"
        raise DataflowError(msg)
    if len(set(pairs.values())) < len(pairs):
        msg = f"{what}: a column of the right side is named twice: {', '.join(pairs.values())}"
        raise DataflowError(msg)
    return pairs


def _check(what: str, how: str, within: Within | None, pairs: Mapping[str, str]) -> None:
    if how not in KINDS:
        msg = f"{what}: how is one of {', '.join(KINDS)}, not {how!r}"
        raise DataflowError(msg)
    if within is not None and not isinstance(within, Between | Windows):
        msg = f"{what}: within is rc.between(...) or rc.tumbling(...), not {within!r}"
        raise DataflowError(msg)
    if isinstance(within, Windows) and (
        within.every_us != within.size_us or within.gap_us is not None or within.assigned
    ):
        msg = f"{what}: windows of a join follow one another; use rc.tumbling, or rc.between"
        raise DataflowError(msg)
    if within is None and (how in OUTER or how == "anti"):
        msg = (
            f"{what}: which rows have no match is known only when event time has passed all that could match; say"
            " within=rc.between(...) or within=rc.tumbling(...)"
        )
        raise DataflowError(msg)
    if isinstance(within, Windows) and {START, END} & {*pairs, *pairs.values()}:
        msg = f"{what}: a key has the name of a window's column; rename it"
        raise DataflowError(msg)


def _time(stream: Stream, said: str | None, side: str, what: str) -> str:
    column = declared_column(stream.node) if said is None else said
    if column is None:
        msg = (
            f"{what}: say which column of the {side} side has the event times, with {side}_time=, or before with"
            " stream.event_time('column')"
        )
        raise DataflowError(msg)
    return column


def plain_name(name: str) -> str:
    """A side's column without its prefix."""
    return name.partition(".")[2]
