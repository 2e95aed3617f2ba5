"""`process`, naively: states are a scalar, a list and a dict in memory, and timers a dict. See `twins`.

The function is the same for both: it is given a context of Rechannel's, or a naive one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from random import Random
from typing import Any

import rechannel as rc
from tests.property.twin_letters import dislike, letter
from tests.property.twin_running import Arranged
from tests.property.twin_values import Row, mix, plain
from tests.property.twin_windows import EPOCH, TIME, ms_of
from tests.property.twins import Keyed, Step, tie

TOTAL, RECENT, SEEN = "total", "recent", "seen"
ENTRIES: dict[str, Callable[[int], Any]] = {
    "string": lambda number: f"e:{number}",
    "long": lambda number: number - 3,
}


@dataclass
class Kept:
    """What a key keeps: values with the time at which they were written, ms."""

    total: tuple[Any, int] | None = None
    recent: list[tuple[Any, int]] = field(default_factory=list)
    seen: dict[Any, tuple[Any, int]] = field(default_factory=dict)
    timers: dict[str, datetime] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.total or self.recent or self.seen or self.timers)

    def expire(self, now: int, ttls: dict[str, int | None]) -> None:
        """Forget what has outlived its time."""

        def alive(state: str, written: int) -> bool:
            ttl = ttls[state]
            return ttl is None or written + ttl > now

        if self.total and not alive(TOTAL, self.total[1]):
            self.total = None
        self.recent = [each for each in self.recent if alive(RECENT, each[1])]
        self.seen = {k: each for k, each in self.seen.items() if alive(SEEN, each[1])}


@dataclass
class Context:
    """What the function is given, naively. It is its own handle of each state."""

    kept: Kept
    now: int
    side: list[Any] = field(default_factory=list)

    @property
    def processing_time(self) -> datetime:
        return EPOCH + timedelta(milliseconds=self.now)

    def value(self, name: str) -> Any:
        return _Value(self)

    def list(self, name: str) -> Any:
        return _List(self)

    def map(self, name: str) -> Any:
        return _Map(self)

    def set_timer(self, name: str, at: datetime) -> None:
        self.kept.timers[name] = at

    def clear_timer(self, name: str) -> None:
        self.kept.timers.pop(name, None)

    def timer(self, name: str) -> datetime | None:
        return self.kept.timers.get(name)

    def side_output(self, name: str, row: Any) -> None:
        self.side.append(row)


@dataclass
class _Value:
    of: Context

    def get(self, default: Any = None) -> Any:
        return self.of.kept.total[0] if self.of.kept.total else default

    def set(self, value: Any) -> None:
        self.of.kept.total = value, self.of.now

    def clear(self) -> None:
        self.of.kept.total = None


@dataclass
class _List:
    of: Context

    def __len__(self) -> int:
        return len(self.of.kept.recent)

    def __iter__(self) -> Iterator[Any]:
        return iter([value for value, _ in self.of.kept.recent])

    def append(self, value: Any) -> None:
        self.of.kept.recent.append((value, self.of.now))

    def popleft(self) -> Any:
        return self.of.kept.recent.pop(0)[0]

    def clear(self) -> None:
        self.of.kept.recent.clear()


@dataclass
class _Map:
    of: Context

    def __contains__(self, key: Any) -> bool:
        return key in self.of.kept.seen

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(self.of.kept.seen))

    def __len__(self) -> int:
        return len(self.of.kept.seen)

    def get(self, key: Any, default: Any) -> Any:
        return self.of.kept.seen[key][0] if key in self.of.kept.seen else default

    def items(self) -> list[tuple[Any, Any]]:
        return [(key, self.of.kept.seen[key][0]) for key in self]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.of.kept.seen[key] = value, self.of.now

    def __delitem__(self, key: Any) -> None:
        del self.of.kept.seen[key]

    def clear(self) -> None:
        self.of.kept.seen.clear()


@dataclass(eq=False, kw_only=True)
class Processed(Keyed):
    """A function with states of all kinds. A key remembers what is `Kept`.

    timing: "", "event", "processing" or "both": what its timers go by. delay: of event time, ms. last: elements that
    its list has at most. ttls: by state, ms. modulus: the function fails for one of so many rows; 0 = for none. entry:
    type of the keys of its map.
    """

    timing: str
    delay: int
    last: int
    ttls: dict[str, int | None]
    modulus: int
    entry: str
    watermark: int | None = None
    side: list[Row] = field(default_factory=list)
    letters: list[Row] = field(default_factory=list)

    def reset(self) -> None:
        super().reset()
        self.watermark, self.side, self.letters = None, [], []

    @property
    def timers(self) -> dict[str, Any]:
        """What each of its timers goes by."""
        if self.timing == "both":
            return {"near": "event", "far": "processing"}
        return dict.fromkeys(("near", "far"), self.timing) if self.timing else {}

    @property
    def by_event_time(self) -> bool:
        return "event" in self.timers.values()

    @property
    def ordered(self) -> bool:
        return isinstance(self.inputs[0], Arranged)

    @property
    def late(self) -> list[Row]:
        (before,) = self.inputs
        assert isinstance(before, Arranged)
        return before.late

    def build(self, *inputs: Any) -> Any:
        stream, alone = inputs[0], self.alone()
        if self.by_event_time and not self.ordered:
            stream = stream.event_time(TIME, self.delay, name=f"{self.name}-time")
        return stream.key_by(*self.keys).process(
            alone.follow,
            schema=self.declared,
            states={
                TOTAL: rc.states.value_state("n BIGINT, trail BIGINT", ttl=self.ttls[TOTAL]),
                RECENT: rc.states.list_state("v BIGINT", ttl=self.ttls[RECENT]),
                SEEN: rc.states.map_state(f"e {self.entry}", "v BIGINT", ttl=self.ttls[SEEN]),
            },
            timers=self.timers or None,
            on_timer=alone.fire if self.timing else None,
            side_outputs={"odd": "odd BIGINT"},
            time_column=TIME if self.ordered else None,
            on_error="dead_letter" if self.modulus else "fail",
            **self.options,
        )

    @property
    def declared(self) -> str:
        return ", ".join(f"{name} long" for name in list(self.columns)[len(self.keys) :])

    def follow(self, key: Any, rows: Any, context: Any) -> Iterator[Any]:
        """Do a bit of everything, by numbers that follow from the rows."""
        total, recent, seen = context.value(TOTAL), context.list(RECENT), context.map(SEEN)
        n, trail = total.get((0, 0))
        for row in rows:
            near = self.inputs[0].near
            named = zip(self.values, row, strict=True)
            number = mix(value for name, value in named if name not in near)
            if self.modulus:
                dislike(row, self.modulus)
            n, trail = n + 1, (trail * 31 + number) % 2**40
            recent.append(number % 1000)
            while len(recent) > self.last:
                trail += recent.popleft()
            entry = ENTRIES[self.entry](number % 7)
            if number % 5 == 0 and entry in seen:
                del seen[entry]
            else:
                seen[entry] = seen.get(entry, 0) + 1
            if number % 11 == 0:
                recent.clear()
            if number % 13 == 0:
                seen.clear()
            self.set_timers(number, row, context)
            if number % 3 == 0:
                context.side_output("odd", number % 100)
            for _ in range(number % 3):
                yield n, trail
            if number % 7 == 0:
                yield {self.fields[0]: len(recent), self.fields[1]: sum(v for _, v in seen.items())}
        if trail % 19 == 0:
            total.clear()
        elif trail % 4:
            total.set((n, trail))

    @property
    def fields(self) -> list[str]:
        return list(self.columns)[len(self.keys) :]

    def set_timers(self, number: int, row: Row, context: Any) -> None:
        if not self.timing:
            return
        times = {"processing": context.processing_time}
        if self.by_event_time:
            times["event"] = row[self.values.index(TIME)]
        near, far = times[self.timers["near"]], times[self.timers["far"]]
        if number % 3 == 0 and near is not None:
            context.set_timer("near", near + timedelta(milliseconds=number % 90))
        if number % 4 == 0 and far is not None and context.timer("far") is None:
            context.set_timer("far", far + timedelta(milliseconds=150 if number % 8 else 0))
        if number % 17 == 0:
            context.clear_timer("near")

    def fire(self, key: Any, timer: Any, context: Any) -> list[Any]:
        """Emit what there is, and change some of it."""
        total, recent, seen = context.value(TOTAL), context.list(RECENT), context.map(SEEN)
        n, trail = total.get((0, -1))
        numbers = [*recent, *(value for _, value in seen.items())]
        if timer.name == "near" and n % 4 == 1:
            context.set_timer("near", timer.at + timedelta(milliseconds=40))
            total.set((n + 1, trail))
        if timer.name == "far" and self.timing == "both" and n % 2:
            context.set_timer("near", EPOCH)
        if timer.name == "far":
            seen.clear()
            if trail % 2:
                recent.clear()
            else:
                total.clear()
                recent.append(-1)
        return [] if trail % 5 == 0 else [(-n, sum(numbers) * 2 + (timer.name == "far"))]

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        self.stream_ms, up = stream_ms, self.inputs[0]
        came: dict[str, tuple[Row, list[Row]]] = {}
        for row in inputs[0]:
            key = tuple(row[up.place(name)] for name in self.keys)
            mine = came.setdefault(repr(list(map(plain, key))), (key, []))[1]
            mine.append(row)
        self.watermark = self.after(inputs[0], stream_ms)
        for text, (key, _) in self.memory.items():
            came.setdefault(text, (key, []))
        shown: list[tuple[Row, Any]] = []
        aside: list[tuple[Row, Any]] = []
        letters: list[tuple[Row, Any]] = []
        for text, (key, rows) in came.items():
            kept = self.memory.get(text, (key, Kept()))[1]
            kept.expire(stream_ms, self.ttls)
            context = Context(deepcopy(kept), stream_ms)
            name = key if len(key) > 1 else key[0]
            made: list[Any] = []
            try:
                for time, some in self.calls(rows):
                    if time is not None:
                        made += self.fired(name, time, None, context)
                    values = [tuple(row[up.place(n)] for n in self.values) for row in some]
                    made += self.follow(name, values, context)
            except Exception as error:
                if not self.modulus:
                    raise
                context, made = Context(kept, stream_ms), []
                columns = list(up.columns)
                letters += [(key, letter(self.name, error, columns, row)) for row in rows]
            made += self.fired(name, self.watermark, stream_ms, context)
            self.memory[text] = key, context.kept
            if not context.kept:
                del self.memory[text]
            shown += [(key, self.tupled(each)) for each in made]
            aside += [(key, (each,)) for each in context.side]
        self.side, self.letters = self.sorted(aside), [made for _, made in letters]
        return self.sorted(shown)

    def tupled(self, made: Any) -> Row:
        return tuple(made[name] for name in self.fields) if isinstance(made, dict) else made

    def sorted(self, made: list[tuple[Row, Row]]) -> list[Row]:
        places = [(tie(key), number) for number, (key, _) in enumerate(made)]
        return self._placed([key for key, _ in made], places, [(*key, *row) for key, row in made])

    def calls(self, rows: list[Row]) -> list[tuple[int | None, list[Row]]]:
        """The rows of each call, and the time before which timers go off."""
        if not self.ordered:
            return [(None, rows)] if rows else []
        at, timed = self.inputs[0].place(TIME), self.by_event_time
        times = [(ms, list(some)) for ms, some in groupby(rows, lambda row: ms_of(row[at]))]
        return [(ms if timed else None, some) for ms, some in times]

    def fired(
        self, name: Any, until: int | None, processing: int | None, context: Context
    ) -> list[Any]:
        """What timers make that are due, ms; those of event time come first. processing: None = none of these is."""
        made: list[Any] = []
        ends = {"event": until, "processing": processing if self.by_event_time else until}
        while self.timing:
            due = min(
                (
                    (kind, at, n)
                    for n, at in context.kept.timers.items()
                    if (end := ends[kind := self.timers[n]]) is not None
                    and at <= EPOCH + timedelta(milliseconds=end)
                ),
                default=None,
            )
            if due is None:
                break
            del context.kept.timers[due[2]]
            made += self.fire(name, rc.frames.Timer(due[2], due[1]), context)
        return made

    def after(self, rows: list[Row], stream_ms: int) -> int | None:
        """The watermark after some rows, ms."""
        known = [] if self.watermark is None else [self.watermark]
        if self.timing == "processing":
            return max([*known, stream_ms])
        if self.ordered:
            return self.inputs[0].watermark  # type: ignore[attr-defined, no-any-return]
        if not self.by_event_time:
            return None
        at = self.inputs[0].place(TIME)
        seen = [ms_of(row[at]) - self.delay for row in rows if row[at] is not None]
        return max([*known, *seen], default=None)

    def state(self) -> list[Row]:
        rows: list[Row] = []
        for key, kept in self.memory.values():
            kept.expire(self.stream_ms, self.ttls)
            if kept.total:
                (n, trail), at = kept.total
                total = {"n": n, "trail": trail}
                rows.append((*key, TOTAL, None, self.until(TOTAL, at), total, None, None))
            for value, at in kept.recent:
                rows.append((*key, RECENT, None, self.until(RECENT, at), None, {"v": value}, None))
            for entry, (value, at) in kept.seen.items():
                until = self.until(SEEN, at)
                rows.append((*key, SEEN, str(entry), until, None, None, {"v": value}))
            for name, when in kept.timers.items():
                rows.append((*key, None, name, when, None, None, None))
        return rows

    def until(self, state: str, written: int) -> datetime | None:
        ttl = self.ttls[state]
        return None if ttl is None else EPOCH + timedelta(milliseconds=written + ttl)


@dataclass(eq=False, kw_only=True)
class SideRows(Step):
    """The side output of a `Processed`."""

    def build(self, *inputs: Any) -> Any:
        return inputs[0].side_output("odd")

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        (operator,) = self.inputs
        side: list[Row] = operator.side  # type: ignore[attr-defined]
        return side


def random_processed(rng: Random, up: Step, name: str, timing: str, *, ordered: bool) -> Processed:
    """A `process` over a step. ordered: by event time."""
    usable = [n for n in ("a", "b", "c") if n in up.columns and n not in up.near]
    keys = tuple(rng.sample(usable, rng.choice((1, 1, 2))))
    tasks, delay = rng.choice((None, None, 1, 2, 3)), rng.choice((0, 0, 100, 300))
    columns = {key: up.columns[key] for key in keys} | {"n": "long", "trail": "long"}
    if ordered:
        up = Arranged(
            name=f"{name}.order",
            columns=dict(up.columns),
            inputs=(up,),
            keys=keys,
            tasks=tasks,
            delay=delay,
        )
    return Processed(
        name=name,
        columns=columns,
        inputs=(up,),
        keys=keys,
        tasks=tasks,
        timing=timing,
        delay=delay,
        last=rng.choice((1, 3, 100)),
        ttls={state: rng.choice((None, None, 5, 100)) for state in (TOTAL, RECENT, SEEN)},
        modulus=rng.choice((0, 0, 7, 20)),
        entry=rng.choice(tuple(ENTRIES)),
    )
