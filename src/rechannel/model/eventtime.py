"""Event time of operators: how far it has come is a function of which rows every timestep read, and of nothing else.

The theory. An *input of time* is a place in the dataflow at which the rows' own time is declared, or an operator with
event time itself. Every timestep knows the latest event time that any row before or in it showed there; less the delay
that rows may have, that is the input's watermark. An operator's watermark is the least of its inputs', and never goes
back. Inputs that brought no row for longer than `idle_ms` of timestep time are left out, until they bring one
(Akidau et al., VLDB 2015, section 2.3, call these heuristic watermarks).

Tasks hear of it in band: a producer's task tells every task of its consumers what it has seen, so all of them come to
the same watermark within the timestep, without another round through the driver. A row is *late* if the watermark of
the timestep before had passed what it would have belonged to: rows of one timestep do not make each other late.

Event times are microseconds since 1970, as Arrow and Spark have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any

from rechannel.model.codec import ABSENT, decode, encode, row

NEVER = -(1 << 63)
"""The watermark before any row: nothing is late and nothing is complete."""

ENDED = (1 << 63) - 1
"""The watermark when no row will come any more: everything is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeInput:
    """Where an operator has its event time from.

    name: of the node that declares it, or of the operator with event time. delay_us: how much later than the latest
    one rows may come. idle_ms: without rows for longer, the input holds no operator back; None = it always does.
    finished: all its rows are in the next timestep. processing: its time is that of the timesteps, whatever rows say.
    """

    name: str
    delay_us: int = 0
    idle_ms: int | None = None
    finished: bool = False
    processing: bool = False


@row
@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What is known of an input. latest: event time, NEVER before any row. active_ms: time of the timestep that last
    brought rows, or in which the input was first looked at.
    """

    latest: int = NEVER
    active_ms: int = 0


@row
@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """Where an operator that shows something at an interval stands. now_ms: time of the timestep, Unix milliseconds.

    shown: number of the timestep that showed it last, 0 before any.
    """

    now_ms: int
    shown: int = 0

    def strikes(self, now_ms: int, every_ms: int) -> bool:
        """Whether a timestep at a time is the first one of an interval; intervals begin at 1970."""
        return now_ms // every_ms > self.now_ms // every_ms

    def after(self, timestep: int, now_ms: int, every_ms: int) -> Beat:
        """One timestep further."""
        shown = timestep if self.strikes(now_ms, every_ms) else self.shown
        return Beat(now_ms=now_ms, shown=shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Event time of one operator after a timestep. marks: of its inputs. beat: None where nothing is shown early."""

    watermark: int = NEVER
    marks: Mapping[str, Mark] = field(default_factory=dict)
    beat: Annotated[Beat | None, ABSENT] = None

    def __post_init__(self) -> None:
        """Freeze the marks."""
        object.__setattr__(self, "marks", MappingProxyType(dict(self.marks)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as JSON: a mapping proxy cannot be."""
        return decode, (Times, encode(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The times that a task goes by in a timestep.

    now_ms: of the timestep, Unix milliseconds. before, watermark: event time as of the timestep before, and as of this
    one; NEVER where there is none. since: number of the timestep that showed early what was not complete, if this one
    does (0 = none did); None = it does not.
    """

    now_ms: int
    before: int = NEVER
    watermark: int = NEVER
    since: int | None = None


def advance(
    times: Times, inputs: Sequence[TimeInput], seen: Mapping[str, int], now_ms: int
) -> Times:
    """Event time after one more timestep.

    seen: latest event time of each input in it; inputs that brought no row are not there. now_ms: of the timestep.
    """
    marks = {}
    for each in inputs:
        mark = times.marks.get(each.name, Mark(active_ms=now_ms))
        if each.name in seen:
            mark = Mark(latest=max(mark.latest, seen[each.name]), active_ms=now_ms)
        if each.processing:
            mark = Mark(latest=now_ms * 1_000, active_ms=now_ms)
        if each.finished:
            mark = Mark(latest=ENDED, active_ms=now_ms)
        marks[each.name] = mark
    counted = [
        less(marks[each.name].latest, each.delay_us)
        for each in inputs
        if each.idle_ms is None or now_ms - marks[each.name].active_ms <= each.idle_ms
    ]
    watermark = max(times.watermark, min(counted, default=NEVER))
    return Times(watermark=watermark, marks=marks)


def less(latest: int, delay_us: int) -> int:
    """So much before an event time; what is no time stays as it is."""
    return latest if latest in (NEVER, ENDED) else latest - delay_us
