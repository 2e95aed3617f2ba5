"""Random dataflows out of all operators, with random input."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.property.twin_asof import Asof
from tests.property.twin_groupwise import Apply, Cogroup
from tests.property.twin_joins import Join
from tests.property.twin_letters import FailingTrack, random_failing, with_letters
from tests.property.twin_lookups import Given, Lookup
from tests.property.twin_running import Running, random_counted, random_running
from tests.property.twin_timers import Timed, TimedBatches, random_timed, trackable
from tests.property.twin_tops import Top
from tests.property.twin_values import AGGREGATES, Row
from tests.property.twin_windows import (
    TIME,
    Copied,
    Deduplicate,
    LateRows,
    Processing,
    Sessions,
    Sliding,
    Window,
    instant,
)
from tests.property.twins import (
    Aggregate,
    Filter,
    Keyed,
    Part,
    Reduce,
    Remap,
    Source,
    Step,
    Track,
    TrackBatches,
    Union,
    Vector,
)

NASTY = (0.0, -0.0, 1.0, 0.1, -2.5, 1e16, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf)
TAME = (0.0, -0.0, 1.0, 0.1, 0.2, 0.3, -2.5, 1e16, math.nan, 1 / 3)
RANKINGS = ("row_number", "row_number", "rank", "dense_rank")
ORDERED = {"first", "last", "first_value", "last_n"}
LEAVING = {"count", "count_of", "sum", "sum_of_floats", "mean", "variance", "stddev"}
STANDARD = {"a": "long", "b": "string", "c": "long", "x": "double"}


@dataclass(frozen=True, kw_only=True)
class Program:
    """A dataflow. ends: steps that go to a sink of their own, by its name."""

    ends: dict[str, Step]
    times: list[int]

    @property
    def steps(self) -> list[Step]:
        """All steps, inputs first."""
        found: dict[int, Step] = {}
        for end in self.ends.values():
            found.update({id(step): step for step in end.all()})
        return list(found.values())

    @property
    def keyed(self) -> list[Keyed]:
        return [step for step in self.steps if isinstance(step, Keyed)]

    @property
    def sources(self) -> list[str]:
        return [step.name for step in self.steps if isinstance(step, Source)]

    @property
    def timesteps(self) -> int:
        return len(self.times)

    def flows(self) -> list[Any]:
        """The dataflow, for Rechannel."""
        built: dict[int, Any] = {}
        return [
            step.stream(built).write.memory(name, name=name) for name, step in self.ends.items()
        ]

    def run(self) -> tuple[dict[str, dict[int, list[Row]]], dict[str, list[list[Row]]]]:
        """The dataflow, naively: rows of every sink by timestep, and every state after each timestep."""
        outputs: dict[str, dict[int, list[Row]]] = {name: {} for name in self.ends}
        states: dict[str, list[list[Row]]] = {step.name: [] for step in self.keyed}
        for step in self.steps:
            step.reset()
        for timestep, stream_ms in enumerate(self.times, 1):
            rows: dict[int, list[Row]] = {}
            for step in self.steps:
                inputs = [rows[id(up)] for up in step.inputs]
                rows[id(step)] = step.run(stream_ms, timestep, *inputs)
            for name, step in self.ends.items():
                outputs[name][timestep] = rows[id(step)]
            for step in self.keyed:
                step.stream_ms = stream_ms
                states[step.name].append(step.state())
        return outputs, states


@dataclass
class Writer:
    """Writes a random program."""

    rng: Random
    made: int = 0

    def program(self) -> Program:  # noqa: PLR0912 - one per operator
        rng = self.rng
        times = self.times()
        floats = rng.choice((NASTY, TAME))
        sources = [self.source(len(times), floats, i) for i in range(rng.choice((1, 1, 2)))]
        steps: list[Step] = list(sources)
        for _ in range(rng.choice((0, 1, 2, 2))):
            steps.append(self.stateless(steps, floats))
        for _ in range(rng.choice((1, 1, 2, 2, 3))):
            # Windows of what has a window take its place: late rows would not be as they came.
            timed = [
                step
                for step in steps
                if TIME in step.columns
                and "window_start" not in step.columns
                and not isinstance(step, Keyed)
            ]
            if timed and rng.random() < 0.65:
                keyed: Any = self.timed(timed)
                columns = self.late_columns(keyed)
                late = [LateRows(name=self.name("late"), columns=columns, inputs=(keyed,))]
                steps += late if rng.random() < 0.5 and not keyed.alters_rows else []
            elif rng.random() < 0.1 and "window_start" not in steps[-1].columns:
                keyed = self.window(steps[-1], processing=True)
            elif rng.random() < 0.15 and (top := self.top(rng.choice(steps))) is not None:
                keyed = top
                if top.bounded and rng.random() < 0.5:
                    columns = self.late_columns(top)
                    steps.append(LateRows(name=self.name("late"), columns=columns, inputs=(keyed,)))
            elif rng.random() < 0.15 and (run := random_running(self, rng.choice(steps))):
                keyed = run
                if run.timed and rng.random() < 0.5:
                    columns = run.inputs[0].columns
                    steps.append(LateRows(name=self.name("late"), columns=columns, inputs=(keyed,)))
            elif rng.random() < 0.1 and (counted := random_counted(self, rng.choice(steps))):
                keyed = counted
            elif rng.random() < 0.2 and (joined := self.join(steps)) is not None:
                keyed = joined
                if joined.bounded and rng.random() < 0.5:
                    columns = self.late_columns(joined)
                    steps.append(LateRows(name=self.name("late"), columns=columns, inputs=(keyed,)))
            elif rng.random() < 0.2 and (looked := self.lookup(steps)) is not None:
                keyed = looked
            elif len(steps) == 1 and rng.random() < 0.15:
                keyed = self.deduplicate(steps[0], forgets=False)
            else:
                keyed = self.keyed(rng.choice(steps[-4:]), len(times))
            steps.append(keyed)
            if rng.random() < 0.5:
                steps.append(self.stateless([keyed], floats))
        # Late rows of `running` are those of the operator before it.
        takers = [
            s for s in steps if not (isinstance(s, LateRows) and isinstance(s.inputs[0], Running))
        ]
        fed = {id(up) for step in takers for up in step.inputs}
        ends = [step for step in steps if id(step) not in fed or rng.random() < 0.2]
        return self.ended([*ends, *with_letters(steps, self.name)], times)

    def times(self) -> list[int]:
        """Times of timesteps."""
        times, now = [], 1_000_000
        for _ in range(self.rng.choice((2, 3, 4, 5, 6, 16))):
            now += self.rng.choice((0, 1, 10, 10, 100))
            times.append(now)
        return times

    def ended(self, ends: list[Step], times: list[int]) -> Program:
        """A program with a sink for every end."""
        return Program(ends={f"sink-{step.name}": step for step in ends}, times=times)

    def name(self, kind: str) -> str:
        self.made += 1
        return f"{kind}-{self.made}"

    def source(self, timesteps: int, floats: tuple[float, ...], number: int) -> Source:
        rng = self.rng
        # Few rows behind many, and state is merged; as many as before, and it is written anew each time.
        later = rng.choice(((0, 1, 2), (0, 1, 3, 8, 20))) if timesteps < 10 else (0, 1, 2)
        counts = [rng.choice((20, 40)), *(rng.choice(later) for _ in range(timesteps - 1))]
        span = rng.choice((2, 5, 40))
        batches = [
            [
                (
                    rng.choice((None, *range(span))),
                    rng.choice((None, "", "s", "t", "sß", "a\0")),
                    rng.choice((None, 0, 1, 2, -(2**40))),
                    rng.choice((None, *floats)),
                )
                for _ in range(count)
            ]
            for count in counts
        ]
        if number:
            batches = batches[: rng.randint(1, timesteps)]
        columns = dict(STANDARD)
        if rng.random() < 0.4:
            columns[TIME] = "timestamp"
            batches = [
                [(*row, self.time(timestep)) for row in rows]  # type: ignore[misc]
                for timestep, rows in enumerate(batches)
            ]
        return Source(
            name=self.name("source"),
            columns=columns,
            batches=batches,
            partitions=rng.randint(1, 4),
        )

    def stateless(self, steps: list[Step], floats: tuple[float, ...]) -> Step:
        rng = self.rng
        up = rng.choice(steps)
        standard = [step for step in steps if list(step.columns) == list(STANDARD)]
        if rng.random() < 0.1 and (failing := random_failing(rng, self.name("failing"), up)):
            return failing
        kind = rng.choice(("filter", "map", "flat_map", "vector", "union", "part"))
        if kind == "union" and standard:
            inputs = tuple(rng.choice(standard) for _ in range(rng.choice((2, 2, 3))))
            return Union(name=self.name("union"), columns=dict(STANDARD), inputs=inputs)
        if kind == "vector" and up in standard:
            return Vector(
                name=self.name("vector"),
                columns=dict(STANDARD),
                inputs=(up,),
                opens=rng.random() < 0.5,
            )
        if kind == "part":
            return Part(
                name=self.name("part"),
                columns=dict(up.columns),
                near=up.near,
                inputs=(up,),
                branch=rng.choice("abc"),
                modulus=rng.randint(2, 4),
            )
        if kind == "filter":
            return Filter(
                name=self.name("filter"),
                columns=dict(up.columns),
                near=up.near,
                inputs=(up,),
                modulus=rng.randint(2, 5),
            )
        return Remap(
            name=self.name("remap"),
            columns=dict(STANDARD),
            inputs=(up,),
            floats=floats,
            copies=rng.choice((2, 3)) if kind == "flat_map" else None,
        )

    def time(self, timestep: int) -> Any:
        """Event times move on by 100 ms a timestep, spread over 300 ms; some are missing."""
        rng = self.rng
        return None if rng.random() < 0.05 else instant(timestep * 100 - rng.randint(-50, 250))

    def timed(self, steps: list[Step]) -> Keyed:
        """An operator that goes by event time."""
        if self.rng.random() < 0.25 and (joined := self.join(steps, last=True)) is not None:
            return joined
        up = self.rng.choice(steps)
        if self.rng.random() < 0.2 and not up.near and "array" not in up.columns.values():
            return self.apply(up)
        if self.rng.random() < 0.15 and (keys := trackable(up)):
            return self.tracking(up, tuple(self.rng.sample(keys, 1)))
        return self.window(up) if self.rng.random() < 0.7 else self.deduplicate(up)

    def tracking(self, up: Step, keys: tuple[str, ...]) -> Timed:
        """State with timers of event time."""
        rng = self.rng
        longs = [n for n, k in up.columns.items() if k == "long" and n not in {*keys, *up.near}]
        fields = {f"n{self.made}": "long", f"trail{self.made}": "long"}
        tracking = {
            "columns": {**{key: up.columns[key] for key in keys}, **fields},
            "inputs": (up,),
            "keys": keys,
            "drop": rng.choice((2, 3, 5, 1000)),
            "tasks": rng.choice((None, None, 1, 2, 3)),
        }
        timed = random_timed(rng, tracking, event=True)
        if not longs or rng.random() < 0.5:
            return Timed(name=self.name("timed"), begins=rng.random() < 0.3, **timed)
        last = rng.choice(longs)
        return TimedBatches(name=self.name("timed_batches"), begins=False, last=last, **timed)

    def apply(self, up: Step) -> Apply:
        """A function of the rows of a window."""
        rng = self.rng
        usable = [n for n in STANDARD if n in up.columns]
        keys = tuple(rng.sample(usable, rng.choice((1, 1, 2))))
        fields = {f"{name}{self.made}": "long" for name in ("side", "nth", "others", "value")}
        windows = {"window_start": "timestamp", "window_end": "timestamp"}
        return Apply(
            name=self.name("apply"),
            columns={**{key: up.columns[key] for key in keys}, **windows, **fields},
            inputs=(up,),
            keys=(*keys, "window_start"),
            user_keys=keys,
            fields=tuple(fields),
            size=(size := rng.choice((30, 100, 250))),
            every=self.distance(size),
            delay=rng.choice((0, 0, 100, 300)),
            tasks=rng.choice((None, None, 1, 2, 3)),
        )

    def deduplicate(self, up: Step, *, forgets: bool = True) -> Deduplicate:
        rng = self.rng
        usable = [n for n in STANDARD if n in up.columns and n not in up.near]
        return Deduplicate(
            name=self.name("deduplicate"),
            columns=dict(up.columns),
            near=up.near,
            inputs=(up,),
            keys=tuple(rng.sample(usable, rng.choice((1, 1, 2)))),
            tasks=rng.choice((None, None, 1, 2, 3)),
            within=rng.choice((30, 100, 400)) if forgets else None,
            delay=rng.choice((0, 0, 100, 300)),
        )

    def join(self, steps: list[Step], *, last: bool = False) -> Join | None:
        """Two steps, which may be one, over a key that both have; None where there is none. last: an as-of join."""
        rng = self.rng
        # Late rows of a join have a column that those of another one need.
        usable = [step for step in steps if not step.near and "_side" not in step.columns]
        usable = [step for step in usable if "array" not in step.columns.values()]
        timed = [s for s in usable if TIME in s.columns and not isinstance(s, Keyed)]
        bounded = bool(timed) and (last or rng.random() < 0.7)
        if not usable:
            return None
        left, right = (rng.choice(timed if bounded else usable) for _ in range(2))
        pairs = [
            (ours, other)
            for ours, kind in left.columns.items()
            for other, its in right.columns.items()
            if kind == its and kind in ("long", "string") and ours != TIME
        ]
        if not pairs:
            return None
        on = dict(rng.sample(pairs, 1))
        more = [(o, r) for o, r in pairs if o not in on and r not in on.values()]
        if more and rng.random() < 0.5:
            on.update([rng.choice(more)])
        # A window of a row's own would be lost: the join's takes its place.
        whole = "window_start" not in right.columns
        tumbles = bounded and not last and rng.random() < 0.4 and whole
        size = rng.choice((30, 100, 250)) if tumbles else None
        between = None
        if bounded and size is None:
            least = rng.choice((-150, -50, 0, 20))
            between = (least, least + rng.choice((0, 50, 300)))
        kinds = ("inner", "left", "right", "full", "semi", "anti") if bounded else ("inner", "semi")
        how = rng.choice(("left", "inner") if last else kinds)
        keys = {name: left.columns[name] for name in on}
        windows = {} if size is None else {"window_start": "timestamp"}
        ends = {} if size is None else {"window_end": "timestamp"}
        columns = {**keys, **windows, **ends}
        if set(columns) & set(left.columns) - set(on) or len(columns) < len(on) + 2 * (
            size is not None
        ):
            return None
        columns |= {n: k for n, k in left.columns.items() if n not in on}
        for name, kind in right.columns.items():
            if name in on.values():
                continue
            shown = f"{name}_right" if name in columns else name
            if shown in columns:
                return None
            if how not in ("semi", "anti"):
                columns[shown] = kind
        common: dict[str, Any] = {
            "columns": columns,
            "inputs": (left, right),
            "keys": (*keys, *windows),
            "tasks": rng.choice((None, None, 1, 2, 3)),
            "how": how,
            "on": on,
            "delays": (rng.choice((0, 0, 100, 300)), rng.choice((0, 0, 100, 300))),
        }
        if size is not None:
            common["every"] = self.distance(size)
        if last:
            return Asof(name=self.name("asof"), tolerance=rng.choice((None, 0, 50, 200)), **common)
        if between is None and rng.random() < 0.4:
            fields = {f"{name}{self.made}": "long" for name in ("side", "nth", "others", "value")}
            common["columns"] = {**keys, **windows, **ends, **fields}
            return Cogroup(name=self.name("cogroup"), size=size, fields=tuple(fields), **common)
        return Join(name=self.name("join"), between=between, size=size, **common)

    def distance(self, size: int | None) -> int | None:
        """From one window to the next, where they overlap."""
        if size is None or self.rng.random() < 0.6:
            return None
        return self.rng.choice((size // 2, size // 3))

    def lookup(self, steps: list[Step]) -> Lookup | None:
        """Two steps, which may be one, over a key that both have; None where there is none."""
        rng = self.rng
        usable = [step for step in steps if not step.near and "array" not in step.columns.values()]
        if not usable:
            return None
        left, right = (rng.choice(usable) for _ in range(2))
        if rng.random() < 0.4:
            right = Given(
                name=self.name("given"),
                columns={"key": "long", "c": "long", "even": "boolean"},
                span=rng.choice((2, 5, 40)),
                refresh=rng.choice((None, 1, 10, 100)),
            )
        pairs = [
            (ours, other)
            for ours, kind in left.columns.items()
            for other, its in right.columns.items()
            if kind == its
            and kind in ("long", "string", "double")
            and (other == "key" or not isinstance(right, Given))
        ]
        if not pairs:
            return None
        on = dict(rng.sample(pairs, 1))
        more = [(o, r) for o, r in pairs if o not in on and r not in on.values()]
        if more and rng.random() < 0.4:
            on.update([rng.choice(more)])
        others = [name for name in right.columns if name not in on.values()]
        kept = [f"{name}_right" if name in on else name for name in others]
        shown = [f"{name}_right" if name in {*on, *left.columns} else name for name in others]
        taken = {*on, *left.columns}
        if len({*kept}) < len(kept) or len({*shown}) < len(shown) or taken & {*shown}:
            return None
        columns = {name: left.columns[name] for name in on}
        columns |= {name: kind for name, kind in left.columns.items() if name not in on}
        columns |= {name: right.columns[n] for name, n in zip(shown, others, strict=True)}
        some = rng.sample(others, min(len(others), rng.choice((1, 1, 2))))
        return Lookup(
            name=self.name("lookup"),
            columns=columns,
            inputs=(left, right),
            keys=tuple(on),
            tasks=rng.choice((None, None, 1, 2, 3)),
            how=rng.choice(("inner", "left")),
            on=on,
            by=tuple(some) if rng.random() < 0.5 and not isinstance(right, Given) else (),
        )

    def top(self, up: Step) -> Top | None:
        """The first rows of a key; None where there is nothing to order them by."""
        rng = self.rng
        sizes = TIME in up.columns and not isinstance(up, Keyed)
        size = rng.choice((30, 100, 250)) if sizes and rng.random() < 0.6 else None
        if up.near or {"window_start", "window_end", "rank"} & set(up.columns):
            return None
        plain = [n for n, kind in up.columns.items() if kind in ("long", "string", "double")]
        if len(plain) < 2:
            return None
        keys = tuple(rng.sample(plain, 1))
        by = rng.sample(
            [n for n in plain if n not in keys], rng.choice((1, 1, 2)) if len(plain) > 2 else 1
        )
        last = size is None and rng.random() < 0.3
        ends = {} if size is None else {"window_start": "timestamp", "window_end": "timestamp"}
        ranks = {} if last else {"rank": "long"}
        columns = {**{n: up.columns[n] for n in keys}, **ends, **ranks}
        columns |= {n: kind for n, kind in up.columns.items() if n not in keys}
        return Top(
            name=self.name("top"),
            columns=columns,
            inputs=(up,),
            keys=keys if size is None else (*keys, "window_start"),
            user_keys=keys,
            by={name: last or rng.random() < 0.5 for name in by},
            n=1 if last else rng.choice((None, 1, 2, 3)),
            last=last,
            size=size,
            every=self.distance(size),
            ties=size is not None and rng.random() < 0.5,
            ranking=rng.choice(RANKINGS if size is not None else RANKINGS[:1]),
            delay=rng.choice((0, 0, 100, 300)),
            tasks=rng.choice((None, None, 1, 2, 3)),
        )

    def late_columns(self, joined: Keyed) -> dict[str, str]:
        """Columns of the rows that came too late: as they came, or, for a join, as its state shows them."""
        if not isinstance(joined, Join):
            own = {} if getattr(joined, "every", None) is None else {"window_start": "timestamp"}
            panes = isinstance(joined, Sliding | Processing)
            return joined.inputs[0].columns | ({} if panes else own)
        columns = {name: joined.columns[name] for name in joined.keys}
        columns["_side"] = "string"
        ends = {*columns, "window_end"}
        for side in (0, 1):
            for name in joined.others(side):
                shown = f"{name}_right" if side and name in {*columns, *ends} else name
                columns[shown] = joined.inputs[side].columns[name]
        return columns

    def window(self, up: Step, *, processing: bool = False) -> Window:
        rng = self.rng
        usable = [n for n, kind in up.columns.items() if kind in AGGREGATES["min"].takes]
        usable = [n for n in usable if n not in up.near and n not in (TIME, "window_end")]
        keys = tuple(rng.sample(usable, min(len(usable), rng.choice((1, 1, 2)))))
        columns = {key: up.columns[key] for key in keys}
        columns |= {"window_start": "timestamp", "window_end": "timestamp"}
        chosen = self.chosen(up, {**columns, TIME: "timestamp"}, leaving=rng.random() < 0.4)
        slides = rng.random() < 0.5 and not ORDERED & {how for how, _ in chosen.values()}
        for name, (how, of) in chosen.items():
            result = AGGREGATES[how].kind
            columns[name] = up.columns[of] if result == "?" else result
        common: dict[str, Any] = {
            "columns": columns,
            "near": frozenset(n for n, (how, _) in chosen.items() if AGGREGATES[how].near),
            "inputs": (up,),
            "keys": (*keys, "window_start"),
            "user_keys": keys,
            "chosen": chosen,
            "tasks": rng.choice((None, None, 1, 2, 3)),
            "delay": rng.choice((0, 0, 100, 300)),
        }
        if processing and rng.random() < 0.3:
            common["keys"] = keys
            return Sessions(
                name=self.name("sessions"),
                size=rng.choice((5, 20, 150)),
                lateness=0,
                **self.showing(),
                processing=True,
                **common,
            )
        if processing:
            size, every = rng.choice(((10, 10), (100, 100), (50, 20), (100, 10)))
            if ORDERED & {how for how, _ in chosen.values()}:
                every = size
            complete = every != size or rng.random() < 0.7
            name = self.name("processing")
            lasting: dict[str, Any] = {"lateness": 0, "complete": complete}
            return Processing(name=name, size=size, every=every, **lasting, **common)
        longs = [n for n, kind in up.columns.items() if kind == "long" and n not in up.near]
        if longs and rng.random() < 0.25:
            chosen = {}
            folded = f"folded{self.made}"
            shown = {key: columns[key] for key in (*keys, "window_start", "window_end")}
            common |= {"columns": {**shown, folded: "long"}, "near": frozenset(), "chosen": chosen}
            common |= {"folds": (folded, rng.choice(longs)), "inverse": rng.random() < 0.5}
        if rng.random() < 0.25:
            common["keys"] = keys
            gap = rng.choice((10, 20, 50))
            name = self.name("sessions")
            kept = rng.choice((0, 0, 50, 200))
            return Sessions(name=name, size=gap, lateness=kept, **self.showing(), **common)
        if slides:
            size, every = rng.choice(((100, 50), (250, 50), (90, 60), (300, 20), (500, 10)))
            name = self.name("sliding")
            return Sliding(name=name, size=size, every=every, lateness=0, complete=True, **common)
        lasting = {"lateness": rng.choice((0, 0, 50, 200)), **self.showing()}
        apart = lasting["early"] or lasting["lateness"] or not lasting["complete"]
        if (apart or ORDERED & {how for how, _ in chosen.values()}) and rng.random() < 0.4:
            size, every = rng.choice(((100, 50), (90, 60), (100, 30)))
            name = self.name("copied")
            return Copied(name=name, size=size, every=every, **lasting, **common)
        size = rng.choice((30, 100, 250))
        return Window(name=self.name("window"), size=size, **lasting, **common)

    def showing(self) -> dict[str, Any]:
        """When windows are shown."""
        early = self.rng.choice((None, None, 10, 50))
        return {"complete": early is not None or self.rng.random() < 0.7, "early": early}

    def keyed(self, up: Step, timesteps: int) -> Step:
        rng = self.rng
        usable = [n for n, kind in up.columns.items() if kind in AGGREGATES["min"].takes]
        usable = [n for n in usable if n not in up.near]
        keys = tuple(rng.sample(usable, min(len(usable) - 1, rng.choice((1, 1, 1, 2, 3))) or 1))
        kinds = ["aggregate", "aggregate", "track"]
        values = [name for name in up.columns if name not in keys]
        if values and not up.near and "array" not in up.columns.values():
            kinds.append("reduce")
        longs = [n for n in values if up.columns[n] == "long" and n not in up.near]
        if longs:
            kinds.append("track_batches")
        common: dict[str, Any] = {
            "keys": keys,
            "inputs": (up,),
            "tasks": rng.choice((None, None, 1, 2, 3)),
        }
        columns = {key: up.columns[key] for key in keys}
        return self._keyed(rng.choice(kinds), up, columns, longs, common)

    def _keyed(
        self,
        kind: str,
        up: Step,
        columns: dict[str, str],
        longs: list[str],
        common: dict[str, Any],
    ) -> Step:
        rng = self.rng
        if kind == "aggregate":
            chosen = self.chosen(up, columns)
            for name, (how, of) in chosen.items():
                result = AGGREGATES[how].kind
                columns[name] = up.columns[of] if result == "?" else result
            near = frozenset(n for n, (how, _) in chosen.items() if AGGREGATES[how].near)
            return Aggregate(
                name=self.name("aggregate"), columns=columns, near=near, chosen=chosen, **common
            )
        if kind == "reduce":
            columns |= {n: k for n, k in up.columns.items() if n not in columns}
            rowwise = rng.random() < 0.5
            return Reduce(name=self.name("reduce"), columns=columns, rowwise=rowwise, **common)
        tracking: dict[str, Any] = {
            "columns": {**columns, f"n{self.made}": "long", f"trail{self.made}": "long"},
            "drop": rng.choice((2, 3, 5, 1000)),
            "timeout_ms": rng.choice((None, 5, 50)),
            **common,
        }
        if rng.random() < 0.35 and not up.near:
            batches, modulus = kind != "track", rng.choice((3, 7, 20))
            begins = not batches and rng.random() < 0.3
            failing: dict[str, Any] = {"batches": batches, "modulus": modulus, "begins": begins}
            return FailingTrack(name=self.name("failing-track"), **failing, **tracking)
        timed = random_timed(rng, tracking, event=False)
        tells = rng.random() < 0.3
        if kind == "track" and tells:
            return Timed(name=self.name("timed"), begins=rng.random() < 0.3, **timed)
        if kind == "track":
            return Track(name=self.name("track"), begins=rng.random() < 0.3, **tracking)
        last = rng.choice(longs)
        if tells:
            return TimedBatches(name=self.name("timed_batches"), begins=False, last=last, **timed)
        return TrackBatches(name=self.name("track_batches"), begins=False, last=last, **tracking)

    def chosen(
        self, up: Step, keys: Mapping[str, str], *, leaving: bool = False
    ) -> dict[str, tuple[str, str]]:
        """Some aggregates. leaving: of those that rows can be taken out of again."""
        rng = self.rng
        pairs = [
            (how, of)
            for how, aggregate in AGGREGATES.items()
            for of, kind in up.columns.items()
            if kind in aggregate.takes and of not in keys and of not in up.near
        ]
        if rng.random() < 0.6:  # else nothing would ever be combined
            pairs = [pair for pair in pairs if pair[0] not in ORDERED]
        if leaving:
            pairs = [pair for pair in pairs if pair[0] in LEAVING]
        some = rng.sample(pairs, min(len(pairs), 3)) or [("count", "")]
        prefix = f"o{self.made}"
        while {f"{prefix}_{i}" for i in range(len(some))} & keys.keys():
            prefix += "x"
        return {f"{prefix}_{i}": pair for i, pair in enumerate(some)}
