"""`track` with timers, naively: see `twins`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.property.twin_values import Row, plain
from tests.property.twin_windows import TIME, ms_of
from tests.property.twins import Step, Track, TrackBatches, tie


@dataclass(eq=False, kw_only=True)
class Timed(Track):
    """A key that had no rows for a time ends, and is shown once more. A key remembers its state, and until when, ms.

    event: whether that goes by event time. tells: whether something is shown. delay: of event time, ms. late: rows of
    the latest timestep that were too late.
    """

    event: bool
    tells: bool
    delay: int
    watermark: int | None = None
    late: list[Row] = field(default_factory=list)

    def reset(self) -> None:
        super().reset()
        self.watermark, self.late = None, []

    def timed(self, stream: Any) -> Any:
        if not self.event:
            return stream
        return stream.event_time(TIME, self.delay, name=f"{self.name}-time")

    @property
    def timing(self) -> dict[str, Any]:
        time = "event" if self.event else "processing"
        return {**super().timing, "time": time, "expired": self.expires if self.tells else None}

    @property
    def expires(self) -> Any:
        return self.expire

    def expire(self, key: Any, state: Any) -> Any:
        n, trail = state
        return None if trail % 5 == 0 else (n, -trail)

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        up, before = self.inputs[0], self.watermark
        late: list[Row] = []
        came: dict[Any, Any] = {}
        for row in inputs[0]:
            key = tuple(row[up.place(name)] for name in self.keys)
            mine = came.setdefault(repr(list(map(plain, key))), (key, []))[1]
            until = self.until(row, stream_ms)
            if until is None or (self.event and self.passed(until, before)):
                late.append((key, row))
            else:
                mine.append((until, tuple(row[up.place(name)] for name in self.values)))
        self.late = self._in_order(late)
        self.watermark = self.after(inputs[0], stream_ms)
        shown = []
        for text, (key, rows) in came.items():
            known = self.memory.get(text, (key, None))[1]
            if not rows:
                continue
            made = self.update(key, known, [row for _, row in rows], stream_ms)
            self.memory.pop(text, None)
            if made is not None:
                untils = [until for until, _ in rows] + ([] if known is None else [known[1]])
                self.memory[text] = (key, (made[0], max(untils)))
                shown.append((0, key, made[0]))
        for text, (key, (state, until)) in list(self.memory.items()):
            if self.passed(until, self.watermark):
                del self.memory[text]
                last = self.expire(key, state) if self.tells else None
                shown += [] if last is None else [(2 - (text in came), key, last)]
        places = [(phase, tie(key)) for phase, key, _ in shown]
        rows = [(*key, *state) for _, key, state in shown]
        return self._placed([key for _, key, _ in shown], places, rows)

    def until(self, row: Row, stream_ms: int) -> int | None:
        at: Any = row[self.inputs[0].place(TIME)] if self.event else None
        if self.event and at is None:
            return None
        assert self.timeout_ms is not None
        return (ms_of(at) if self.event else stream_ms) + self.timeout_ms

    def after(self, rows: list[Row], stream_ms: int) -> int | None:
        """The watermark behind some rows."""
        known = [] if self.watermark is None else [self.watermark]
        if not self.event:
            return max([*known, stream_ms])
        at = self.inputs[0].place(TIME)
        seen = [ms_of(row[at]) - self.delay for row in rows if row[at] is not None]
        return max([*known, *seen], default=None)

    @staticmethod
    def passed(at: int, watermark: int | None) -> bool:
        return watermark is not None and at <= watermark

    def _fresh(self, kept: Any, stream_ms: int) -> bool:
        return True


@dataclass(eq=False, kw_only=True)
class TimedBatches(Timed, TrackBatches):
    """The same for all keys at a time."""

    @property
    def expires(self) -> Any:
        count, trail = self.fields

        def expire(frame: Any) -> Mapping[str, Any]:
            last = frame.previous(trail)
            return {count: frame.previous(count), trail: -last, "_drop": last % 5 == 0}

        return expire


def random_timed(rng: Random, tracking: Mapping[str, Any], *, event: bool) -> dict[str, Any]:
    """What a `track` has besides, with timers."""
    return {
        **tracking,
        "timeout_ms": rng.choice((30, 100, 400) if event else (5, 50, 100)),
        "event": event,
        "tells": not event or rng.random() < 0.8,
        "delay": rng.choice((0, 0, 100, 300)),
    }


def trackable(up: Step) -> list[str]:
    """Columns that keys may be."""
    return [name for name in ("a", "b", "c", "x") if name in up.columns and name not in up.near]
