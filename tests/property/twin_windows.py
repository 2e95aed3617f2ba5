"""Windows of event time, naively: see `twins`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from math import gcd
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import rechannel as rc
from tests.property.twin_values import AGGREGATES, Row, plain
from tests.property.twins import Keyed, Step, tie

TIME = "at"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def ms_of(at: datetime) -> int:
    return (at - EPOCH) // timedelta(milliseconds=1)


def starts_of(at: datetime | None, size: int, every: int | None = None) -> list[int | None]:
    """Of the windows of `size` ms that a row is in, ascending. every: from one to the next, None = `size`."""
    if at is None:
        return [None]
    ms, step = ms_of(at), every or size
    return [*reversed(range(ms // step * step, ms - size, -step))]


def windows_of(size: int, every: int | None = None) -> Any:
    return rc.windows.tumbling(size) if every is None else rc.windows.sliding(size, every)


def small(column: pa.Array) -> pa.Array:
    """Numbers that never get too large."""
    return pc.bit_wise_and(pc.fill_null(column, 0), pa.scalar(1023, column.type))


def both(function: Any, one: pa.RecordBatch, other: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of two batches, put together column by column."""
    pairs = zip(one.columns, other.columns, strict=True)
    return pa.RecordBatch.from_arrays([function(*pair) for pair in pairs], schema=one.schema)


@dataclass(eq=False, kw_only=True)
class Window(Keyed):
    """Aggregates of the rows of a key in windows of `size` ms.

    user_keys: keys without the window's start. delay: of event time, ms. lateness: ms. complete: whether windows are
    shown when they are complete, or with every change. late: rows of the latest timestep that were too late. folds:
    instead of aggregates, a column as it is shown and the one that it is made of, reduced. inverse: whether what leaves
    is taken out of that.
    """

    user_keys: tuple[str, ...]
    chosen: dict[str, tuple[str, str]]
    size: int
    delay: int
    lateness: int
    complete: bool
    early: int | None = None
    folds: tuple[str, str] | None = None
    inverse: bool = False
    watermark: int | None = None
    late: list[Row] = field(default_factory=list)
    last_ms: int | None = None
    changed: dict[str, None] = field(default_factory=dict)

    def reset(self) -> None:
        super().reset()
        self.watermark, self.late = None, []
        self.last_ms, self.changed = None, {}

    @property
    def values(self) -> list[str]:
        return list(self.inputs[0].columns)

    def build(self, *inputs: Any) -> Any:
        stream = inputs[0]
        if self.folds is not None:
            name, of = self.folds
            folded = {name: rc.computed(small, of, returns="BIGINT")}
            stream = stream.select(*self.user_keys, TIME, folded, name=f"{self.name}-folded")
        timed = stream.event_time(TIME, self.delay, name=f"{self.name}-time")
        windows = timed.key_by(*self.user_keys).window(
            self.windows(),
            lateness=self.lateness,
            emit=self.emit,
        )
        if self.folds is not None:
            inverse = partial(both, pc.subtract) if self.inverse else None
            return windows.reduce(partial(both, pc.add), inverse=inverse, **self.options)
        made = {name: AGGREGATES[how].function(of) for name, (how, of) in self.chosen.items()}
        return windows.aggregate(made, **self.options)

    @property
    def alters_rows(self) -> bool:
        return self.folds is not None

    @property
    def emit(self) -> Any:
        if self.early is not None:
            return rc.every(self.early)
        return "on_close" if self.complete else "on_update"

    def windows(self) -> Any:
        return rc.windows.tumbling(self.size)

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        up, before = self.inputs[0], self.watermark
        places = [up.place(name) for name in self.user_keys]
        at = up.place(TIME)
        touched: dict[str, None] = {}
        late = []
        for row, start in [(one, s) for one in inputs[0] for s in self.starts(one[at])]:
            if start is None or self.passed(start + self.size + self.lateness, before):
                where = None if start is None else instant(start)
                key = (*(row[i] for i in places), where)
                late.append((key, self.late_row(row, where)))
                continue
            key = (*(row[i] for i in places), instant(start))
            text = repr(list(map(plain, key)))
            self.memory.setdefault(text, (key, []))[1].append(row)
            touched[text] = None
        self.late = self._in_order(late)
        seen = [ms_of(row[at]) - self.delay for row in inputs[0] if row[at] is not None]
        self.watermark = max([*seen, *([] if before is None else [before])], default=None)
        early = self._early(stream_ms, touched)
        shown = [t for t in self.memory if t in early or self._shows(t, t in touched, before)]
        emitted = [(self.memory[t][0], (*self.memory[t][0], *self._row(t))) for t in shown]
        gone = [t for t in self.memory if self.passed(self.end(t) + self.lateness, self.watermark)]
        for text in gone:
            del self.memory[text]
        return self._in_order(emitted)

    def late_row(self, row: Row, start: datetime | None) -> Row:
        """A row that came too late for a window."""
        return row

    def starts(self, at: datetime | None) -> list[int | None]:
        """Of the windows that a row is in."""
        return starts_of(at, self.size)

    def _early(self, stream_ms: int, touched: dict[str, None]) -> dict[str, None]:
        """Windows that are shown before they are complete: at the first timestep of every interval."""
        if self.early is None:
            return {}
        self.changed |= touched
        last, self.last_ms = self.last_ms, stream_ms
        if last is None or stream_ms // self.early == last // self.early:
            return {}
        shown, self.changed = self.changed, {}
        return {t: None for t in shown if t in self.memory and not self._over(t)}

    def _over(self, text: str) -> bool:
        return self.passed(self.end(text), self.watermark)

    def _shows(self, text: str, touched: bool, before: int | None) -> bool:
        if not self.complete:
            return touched
        if not self.passed(self.end(text), self.watermark):
            return False
        return touched or not self.passed(self.end(text), before)

    @staticmethod
    def passed(at: int, watermark: int | None) -> bool:
        return watermark is not None and at <= watermark

    def end(self, text: str) -> int:
        return ms_of(self.memory[text][0][-1]) + self.size

    def _row(self, text: str) -> Row:
        key, kept = self.memory[text]
        return (key[-1] + timedelta(milliseconds=self.size), *self.shown(kept))

    def state(self) -> list[Row]:
        return [(*self.memory[text][0], *self._row(text)) for text in self.memory]

    def shown(self, kept: Any) -> Row:
        if self.folds is not None:
            place = self.values.index(self.folds[1])
            return (sum((row[place] or 0) & 1023 for row in kept),)
        return tuple(
            AGGREGATES[how].naive([row[self.values.index(of)] if of else None for row in kept])
            for how, of in self.chosen.values()
        )


@dataclass(eq=False, kw_only=True)
class Copied(Window):
    """Windows of `size` ms every `every` ms that each hold rows of their own."""

    every: int

    def windows(self) -> Any:
        return rc.windows.sliding(self.size, self.every)

    def starts(self, at: datetime | None) -> list[int | None]:
        return starts_of(at, self.size, self.every)

    def late_row(self, row: Row, start: datetime | None) -> Row:
        return (*row, start)


@dataclass(eq=False, kw_only=True)
class Sliding(Window):
    """Windows of `size` ms every `every` ms, of whole panes. A key remembers all rows that are in a window to come."""

    every: int

    @property
    def pane(self) -> int:
        return gcd(self.size, self.every)

    def windows(self) -> Any:
        return rc.windows.sliding(self.size, self.every)

    @property
    def hashed(self) -> tuple[str, ...]:
        return self.user_keys

    def minor(self, key: Row) -> int:
        return 0 if key[-1] is None else ms_of(key[-1])

    def last_end(self, at: int) -> int:
        """End of the last window with a row."""
        return at // self.every * self.every + self.size

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        up, before = self.inputs[0], self.watermark
        places = [up.place(name) for name in self.user_keys]
        at = up.place(TIME)
        late = []
        for row in inputs[0]:
            ms = None if row[at] is None else ms_of(row[at])
            user = tuple(row[i] for i in places)
            if ms is None or self.passed(self.last_end(ms), before):
                pane = None if ms is None else instant(ms // self.pane * self.pane)
                late.append(((*user, pane), row))
                continue
            text = repr(list(map(plain, user)))
            self.memory.setdefault(text, (user, []))[1].append((ms, row))
        self.late = self._in_order(late)
        seen = [ms_of(row[at]) - self.delay for row in inputs[0] if row[at] is not None]
        self.watermark = max([*seen, *([] if before is None else [before])], default=None)
        emitted = []
        for user, kept in self.memory.values():
            starts = {
                start
                for ms, _ in kept
                for start in range(self.last_end(ms) - self.size, ms - self.size, -self.every)
                if self.passed(start + self.size, self.watermark)
                and not self.passed(start + self.size, before)
            }
            for start in starts:
                mine = [row for ms, row in kept if start <= ms < start + self.size]
                emitted.append(self._emitted(user, start, self.size, mine))
        self._forget()
        return self._in_order(emitted)

    def _emitted(self, user: Row, start: int, length: int, rows: list[Row]) -> tuple[Row, Row]:
        key = (*user, instant(start))
        return key, (*key, instant(start + length), *self.shown(rows))

    def _forget(self) -> None:
        for text, (user, kept) in list(self.memory.items()):
            left = [k for k in kept if not self.passed(self.last_end(k[0]), self.watermark)]
            if left:
                self.memory[text] = (user, left)
            else:
                del self.memory[text]

    def state(self) -> list[Row]:
        out = []
        for user, kept in self.memory.values():
            for pane in sorted({ms // self.pane * self.pane for ms, _ in kept}):
                mine = [row for ms, row in kept if pane <= ms < pane + self.pane]
                out.append(self._emitted(user, pane, self.pane, mine)[1])
        return out


@dataclass(eq=False, kw_only=True)
class Deduplicate(Keyed):
    """The first row of every key; within: ms of event time after a row that passed, None = for ever."""

    within: int | None
    delay: int
    watermark: int | None = None
    late: list[Row] = field(default_factory=list)

    def reset(self) -> None:
        super().reset()
        self.watermark, self.late = None, []

    def build(self, *inputs: Any) -> Any:
        stream = inputs[0]
        if self.within is not None:
            stream = stream.event_time(TIME, self.delay, name=f"{self.name}-time")
        return stream.deduplicate(*self.keys, within=self.within, **self.options)

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        up, before = self.inputs[0], self.watermark
        if self.within is not None:
            at = up.place(TIME)
            seen = [ms_of(row[at]) - self.delay for row in inputs[0] if row[at] is not None]
            self.watermark = max([*seen, *([] if before is None else [before])], default=None)
        places = [up.place(name) for name in self.keys]
        passed, late = [], []
        for row in inputs[0]:
            key = tuple(row[i] for i in places)
            text = repr(list(map(plain, key)))
            known = self.memory.get(text)
            until = timestep
            if self.within is not None:
                ms = None if row[up.place(TIME)] is None else ms_of(row[up.place(TIME)])
                if ms is None or self.gone(ms, before):
                    late.append((key, row))
                    continue
                if known is not None and ms >= known[1]:
                    known = None
                until = ms + self.within
            if known is None:
                self.memory[text] = (key, until)
                passed.append((key, row))
        self.late = self._in_order(late)
        if self.within is not None:
            gone = [t for t, (_, until) in self.memory.items() if self.gone(until, self.watermark)]
            for text in gone:
                del self.memory[text]
        return self._in_order(passed)

    def gone(self, ms: int, watermark: int | None) -> bool:
        """Whether rows of a time are late, and what lasts until then is of no use to others."""
        assert self.within is not None
        return watermark is not None and ms + self.within <= watermark

    def shown(self, kept: Any) -> Row:
        return (kept if self.within is None else kept * 1_000,)


@dataclass(eq=False, kw_only=True)
class LateRows(Step):
    """Rows that came too late for a window, or for being told from others."""

    def build(self, *inputs: Any) -> Any:
        return inputs[0].late

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        (operator,) = self.inputs
        late: list[Row] = operator.late  # type: ignore[attr-defined]
        return late


Span = list[tuple[int, int, int, Row]]
"""Rows of a session: time, the timestep that brought it, its number in the stream, the row."""


@dataclass(eq=False, kw_only=True)
class Sessions(Window):
    """Aggregates of the rows of a key that are at most `size` ms apart. A key remembers rows of sessions to come.

    processing: in the time of timesteps.
    """

    processing: bool = False
    shown_early: int = 0
    arrived: int = 0

    def reset(self) -> None:
        super().reset()
        self.shown_early = self.arrived = 0

    def windows(self) -> Any:
        return rc.windows.sessions(self.size)

    def build(self, *inputs: Any) -> Any:
        if not self.processing:
            return super().build(*inputs)
        made = {name: AGGREGATES[how].function(of) for name, (how, of) in self.chosen.items()}
        keyed = inputs[0].key_by(*self.user_keys)
        windows = keyed.window(self.windows(), emit=self.emit, time="processing")
        return windows.aggregate(made, **self.options)

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        before = self.watermark
        late, came = [], []
        for row in inputs[0]:
            user = tuple(row[self.inputs[0].place(name)] for name in self.user_keys)
            ms = self._time(row, stream_ms)
            text = repr(list(map(plain, user)))
            if ms is None or self._foreign(text, ms, before):
                late.append((user, row))
            else:
                came.append((text, user, ms, row))
        self.late = self._in_order(late)
        for text, user, ms, row in came:
            self.arrived += 1
            kept = self.memory.setdefault(text, (user, []))[1]
            kept.append((ms, timestep, self.arrived, row))
        seen = [
            ms - self.delay for row in inputs[0] if (ms := self._time(row, stream_ms)) is not None
        ]
        seen += [stream_ms] if self.processing else []
        self.watermark = max([*seen, *([] if before is None else [before])], default=None)
        since = self._since(stream_ms, timestep)
        emitted, places = [], []
        for text, (user, kept) in list(self.memory.items()):
            left = []
            for session in self._sessions(kept):
                if self._seen(session, before, timestep, since):
                    emitted.append((user, self._emitted(user, session)))
                    places.append((session[-1][0], tie(user)))
                if not self.passed(self._first_beyond(session) + self.lateness, self.watermark):
                    left += session
            self.memory[text] = (user, left)
            if not left:
                del self.memory[text]
        return self._placed([user for user, _ in emitted], places, [row for _, row in emitted])

    def _time(self, row: Row, stream_ms: int) -> int | None:
        if self.processing:
            return stream_ms
        at = row[self.inputs[0].place(TIME)]
        return None if at is None else ms_of(at)

    def _since(self, stream_ms: int, timestep: int) -> int | None:
        """The timestep that showed sessions early before this one, if this one does: the first of every interval."""
        if self.early is None:
            return None
        last, self.last_ms = self.last_ms, stream_ms
        if last is None or stream_ms // self.early == last // self.early:
            return None
        since, self.shown_early = self.shown_early, timestep
        return since

    def _seen(self, session: Span, before: int | None, timestep: int, since: int | None) -> bool:
        """Whether a session is shown."""
        over, touched = self._first_beyond(session), max(came for _, came, _, _ in session)
        if not self.complete:
            return touched == timestep
        if self.passed(over, self.watermark):
            return touched == timestep or not self.passed(over, before)
        return since is not None and touched > since

    def _first_beyond(self, session: Span) -> int:
        """The first millisecond of which no row belongs to a session any more."""
        return session[-1][0] + self.size + 1

    def _foreign(self, text: str, ms: int, before: int | None) -> bool:
        """Whether a row may belong to a session that is gone."""
        if before is None or self.processing or ms >= before - self.lateness:
            return False
        kept: Any = self.memory.get(text, (None, []))[1]
        return not any(s[0][0] <= ms < self._first_beyond(s) for s in self._sessions(kept))

    def _sessions(self, kept: Span) -> list[Span]:
        out: list[Span] = []
        for one in sorted(kept, key=lambda each: each[0]):
            if out and one[0] < self._first_beyond(out[-1]):
                out[-1].append(one)
            else:
                out.append([one])
        return out

    def _emitted(self, user: Row, session: Span) -> Row:
        times = instant(session[0][0]), instant(session[-1][0] + self.size)
        in_order = sorted(session, key=lambda each: each[2])
        return (*user, *times, *self.shown([row for _, _, _, row in in_order]))

    def state(self) -> list[Row]:
        return [
            self._emitted(user, session)
            for user, kept in self.memory.values()
            for session in self._sessions(kept)
        ]


@dataclass(eq=False, kw_only=True)
class Processing(Window):
    """Windows of processing time: `size` ms every `every` ms. A key remembers its rows and when they came."""

    every: int

    @property
    def hashed(self) -> tuple[str, ...]:
        return self.user_keys

    def minor(self, key: Row) -> int:
        return ms_of(key[-1])

    def build(self, *inputs: Any) -> Any:
        made = {name: AGGREGATES[how].function(of) for name, (how, of) in self.chosen.items()}
        windows = (
            inputs[0]
            .key_by(*self.user_keys)
            .window(
                rc.windows.sliding(self.size, self.every),
                emit="on_close" if self.complete else "on_update",
                time="processing",
            )
        )
        return windows.aggregate(made, **self.options)

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        up, before = self.inputs[0], self.watermark
        touched = set()
        for row in inputs[0]:
            user = tuple(row[up.place(name)] for name in self.user_keys)
            text = repr(list(map(plain, user)))
            self.memory.setdefault(text, (user, []))[1].append((stream_ms, row))
            touched.add(text)
        self.watermark = stream_ms
        emitted = []
        for text, (user, kept) in list(self.memory.items()):
            for start in sorted({s for came, _ in kept for s in self._starts(came)}):
                mine = [row for came, row in kept if start <= came < start + self.size]
                over = self.passed(start + self.size, stream_ms)
                if (
                    over and not self.passed(start + self.size, before)
                    if self.complete
                    else text in touched and start <= stream_ms < start + self.size
                ):
                    emitted.append(self._emitted(user, start, self.size, mine))
            left = [one for one in kept if max(self._starts(one[0])) + self.size > stream_ms]
            self.memory[text] = (user, left)
            if not left:
                del self.memory[text]
        return self._in_order(emitted)

    def _starts(self, came: int) -> range:
        return range(came // self.every * self.every, came - self.size, -self.every)

    def _emitted(self, user: Row, start: int, length: int, rows: list[Row]) -> tuple[Row, Row]:
        key = (*user, instant(start))
        return key, (*key, instant(start + length), *self.shown(rows))

    def state(self) -> list[Row]:
        pane = gcd(self.size, self.every)
        out = []
        for user, kept in self.memory.values():
            for start in sorted({came // pane * pane for came, _ in kept}):
                mine = [row for came, row in kept if start <= came < start + pane]
                out.append(self._emitted(user, start, pane, mine)[1])
        return out
