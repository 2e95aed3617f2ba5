"""Event time of operators: a function of which rows every timestep read, and of nothing else.

The theory. An *input of time* is a place in the dataflow at which the rows' own time is declared,
or an operator that has event time itself. For every timestep, the latest event time that any row
has shown at an input so far is known; minus the delay that rows may have, it is the input's
watermark. An operator's watermark is the least of its inputs' watermarks, and never decreases. An
input without rows for longer than `idle_ms` of timestep time is ignored until it has rows again
(Akidau et al., VLDB 2015, section 2.3, call these heuristic watermarks).

Tasks learn it in band: every producer's task sends what it has seen to every task of its
consumers, so that all of them compute the same watermark within the timestep, without another
round trip to the driver. A row is *late* if the previous timestep's watermark had passed the
window or interval that it would have belonged to: rows of one timestep do not make each other
late.

Event times are microseconds since 1970, as in Arrow and Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Any

from rechannel.model.codec import ABSENT, decode, encode, row

NEVER = -(1 << 63)
"""The watermark before any row: nothing is late and nothing is complete."""

ENDED = (1 << 63) - 1
"""The watermark when no more rows will come: everything is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeInput:
    """Where an operator's event time comes from."""

    name: str
    """The node that declares it, or the operator that has event time."""
    delay_us: int = 0
    """How much later than the latest row other rows may come."""
    idle_ms: int | None = None
    """Without rows for longer than this, the input does not hold an operator back; None if it
    always does.
    """
    finished: bool = False
    """Whether all its rows are in the next timestep."""
    processing: bool = False
    """Whether its time is that of the timesteps, whatever the rows say."""
    beside: bool = False
    """Whether the operator goes by this time beside event time: its watermark is that of its other inputs."""


@row
@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What is known of an input."""

    latest: int = NEVER
    """Event time; NEVER before any row."""
    active_ms: int = 0
    """Time of the last timestep that had rows, or of the first one in which the input existed."""


@row
@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """Progress of an operator that emits early results at an interval."""

    stream_ms: int
    """Time of the timestep, Unix milliseconds."""
    shown: int = 0
    """The last timestep that emitted early results; 0 before any."""

    def strikes(self, stream_ms: int, every_ms: int) -> bool:
        """Return whether a timestep at a time is the first of an interval; intervals are counted
        from 1970.
        """
        return stream_ms // every_ms > self.stream_ms // every_ms

    def after(self, timestep: int, stream_ms: int, every_ms: int) -> Beat:
        """Return the progress after a timestep."""
        shown = timestep if self.strikes(stream_ms, every_ms) else self.shown
        return Beat(stream_ms=stream_ms, shown=shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Event time of one operator after a timestep."""

    watermark: int = NEVER
    marks: Mapping[str, Mark] = field(default_factory=dict)
    """What is known of its inputs."""
    beat: Annotated[Beat | None, ABSENT] = None
    """None if nothing is emitted early."""

    def __post_init__(self) -> None:
        """Freeze the mapping."""
        object.__setattr__(self, "marks", MappingProxyType(dict(self.marks)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as JSON: a mapping proxy cannot be pickled."""
        return decode, (Times, encode(self))

    def processing(self, operator: str) -> int:
        """Return the processing time of an operator that goes by it; NEVER of any other. See `Clock.processing`."""
        return self.marks.get(operator, Mark()).latest

    def clock(self, operator: str, stream_ms: int) -> Clock:
        """Return the times by which the state of an operator is read after the timestep."""
        processing = self.processing(operator)
        return Clock(
            stream_ms=stream_ms,
            before=self.watermark,
            watermark=self.watermark,
            processing_before=processing,
            processing=processing,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The times that a task uses in a timestep."""

    stream_ms: int
    """Time of the timestep, Unix milliseconds."""
    before: int = NEVER
    """Watermark of the previous timestep; NEVER if there is none."""
    watermark: int = NEVER
    """Watermark of this timestep; NEVER if there is none."""
    processing_before: int = NEVER
    """Processing time of the previous timestep, in microseconds, of an operator that goes by it; NEVER of any other."""
    processing: int = NEVER
    """Processing time of this timestep; the end of time when no more rows will come."""
    since: int | None = None
    """If this timestep emits early results: the last timestep that did, 0 for none. None if it
    does not.
    """

    @property
    def earlier(self) -> Clock:
        """Return the clock with the watermark and the processing time of the previous timestep."""
        return replace(self, watermark=self.before, processing=self.processing_before)


def advance(
    times: Times, inputs: Sequence[TimeInput], seen: Mapping[str, int], stream_ms: int
) -> Times:
    """Return event time after one more timestep.

    seen: latest event time of each input in the timestep; inputs without rows are missing. stream_ms:
    time of the timestep.
    """
    marks = {}
    for each in inputs:
        mark = times.marks.get(each.name, Mark(active_ms=stream_ms))
        if each.name in seen:
            mark = Mark(latest=max(mark.latest, seen[each.name]), active_ms=stream_ms)
        if each.processing:
            mark = Mark(latest=max(mark.latest, stream_ms * 1_000), active_ms=stream_ms)
        if each.finished:
            mark = Mark(latest=ENDED, active_ms=stream_ms)
        marks[each.name] = mark
    counted = [
        less(marks[each.name].latest, each.delay_us)
        for each in inputs
        if not each.beside
        and (each.idle_ms is None or stream_ms - marks[each.name].active_ms <= each.idle_ms)
    ]
    watermark = max(times.watermark, min(counted, default=NEVER))
    return Times(watermark=watermark, marks=marks)


def less(latest: int, delay_us: int) -> int:
    """Return an event time minus a delay; NEVER and ENDED are unchanged."""
    return latest if latest in (NEVER, ENDED) else latest - delay_us


def watermarks_ms(times: Mapping[str, Times]) -> dict[str, int]:
    """Return the watermarks of operators as Unix milliseconds, without those that are NEVER or ENDED."""
    return {
        name: each.watermark // 1_000
        for name, each in times.items()
        if each.watermark not in (NEVER, ENDED)
    }
