"""Edits of a program's text, and a state directory of the text before them, for upgrades and deploys.

The one table of edits: tests in this process give its texts a script of rows, tests of the command line a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.journal.state import JournalState
from rechannel.settings import Settings
from rechannel.testing import Harness, MemoryStore, script
from rechannel.testing.recorder import Recorder

QUIET = Settings(tasks=2, bins=8, telemetry=False)
FIRST = [{"k": "a", "v": 1, "at": 1_000}, {"k": "b", "v": 2, "at": 2_000}]
SECOND = [{"k": "a", "v": 10, "at": 3_000}]
SCHEMA = "k string, v bigint, at bigint"

Flows = Callable[[Any], list[Any]]


def read(source: Any, name: str = "in") -> Any:
    if isinstance(source, Path):
        return rc.read().files(source / "in", format="parquet", name=name)
    return rc.read().memory(source, name=name)


def written(stream: Any, source: Any, place: str, name: str | None = None) -> Any:
    """Return the stream with a sink: in memory, or in the folder of the source. place: as the sink, unless it moved."""
    if isinstance(source, Path):
        return stream.write.parquet(source / place, name=name or place)
    return stream.write.memory(place, name=name or place)


def sums(
    source: Any, name: str = "op", at: str = "in", place: str = "out", **aggregates: Any
) -> list[Any]:
    op = read(source, at).key_by("k").aggregate(**aggregates, name=name)
    return [written(op, source, place, "out")]


def before(source: Any) -> list[Any]:
    return sums(source, n=agg.count(), total=agg.sum("v"))


def with_tops(source: Any) -> list[Any]:
    stream = read(source)
    op = stream.key_by("k").aggregate(n=agg.count(), total=agg.sum("v"), name="op")
    tops = stream.key_by("k").aggregate(top=agg.max("v"), name="tops")
    return [written(op, source, "out"), written(tops, source, "tops", "tops-out")]


def with_raw(source: Any) -> list[Any]:
    stream = read(source)
    op = stream.key_by("k").aggregate(n=agg.count(), total=agg.sum("v"), name="op")
    return [written(op, source, "out"), written(stream, source, "raw")]


def kept(key: str, state: Any, rows: Any) -> Any:
    return (state or 0) + len(rows["v"])


def kept_and_summed(key: str, state: Any, rows: Any) -> Any:
    seen, total = (0, 0) if state is None else (state.seen, state.total)
    return seen + len(rows["v"]), total + sum(rows["v"])


def tracked(source: Any, function: Any, state: str) -> list[Any]:
    op = read(source).key_by("k").track(function, state=state, name="op")
    return [written(op, source, "out")]


def windowed(source: Any, **lengths: str) -> list[Any]:
    """Return an operator per length, each with a sink."""
    rows = read(source).map_batches(timed, schema="k string, v bigint, t timestamp", name="timed")
    timely = rows.event_time("t", delay="1 hour", name="timely").key_by("k")
    return [
        written(
            timely.window(rc.windows.tumbling(length)).aggregate(n=agg.count(), name=name),
            source,
            f"{name}-out",
        )
        for name, length in lengths.items()
    ]


def timed(batch: pa.RecordBatch) -> pa.RecordBatch:
    t = batch["at"].cast(pa.timestamp("ms")).cast(pa.timestamp("us", "UTC"))
    return pa.record_batch({"k": batch["k"], "v": batch["v"], "t": t})


@dataclass(frozen=True)
class Edit:
    """A text and the one after it. said: what is declared beside it. state: of operators at the end, by key.

    refused: what the message says without what is declared; "" = it is not refused. live: what a running job says of it
    that leaves it to a restart; "" = it carries it out. anew: columns and operators that begin at the edit, and so are
    not those of a batch."""

    new: Flows
    old: Flows = before
    said: Mapping[str, Any] = field(default_factory=dict)
    refused: str = ""
    state: Mapping[str, Any] | None = None
    live: str = ""
    anew: frozenset[str] = frozenset()


def rows(*names: str, **keys: Any) -> dict[str, Any]:
    return {key: dict(zip(names, values, strict=True)) for key, values in keys.items()}


def minutes(length: int) -> tuple[datetime, datetime]:
    """Return the window that all rows are in."""
    begin = datetime(1970, 1, 1, tzinfo=UTC)
    return begin, begin + timedelta(minutes=length)


WINDOW = ("window_start", "window_end", "n")
NAMES = r"new names.*rechannel upgrade FILE --yes"

EDITS = {
    "aggregate added": Edit(
        new=lambda s: sums(s, n=agg.count(), total=agg.sum("v"), top=agg.max("v")),
        state={"op": rows("n", "total", "top", a=(2, 11, 10), b=(1, 2, None))},
        anew=frozenset({"top"}),
    ),
    "aggregate dropped": Edit(
        new=lambda s: sums(s, n=agg.count()), state={"op": rows("n", a=(2,), b=(1,))}
    ),
    "aggregate renamed": Edit(
        new=lambda s: sums(s, number=agg.count(), total=agg.sum("v")),
        said={"migrate": {"op": rc.changes.migrate(rename={"n": "number"})}},
        refused=r"migrate=\{'op': rc.changes.migrate\(rename=\{'n': 'number'\}\)\}",
        state={"op": rows("number", "total", a=(2, 11), b=(1, 2))},
    ),
    "aggregate changed": Edit(
        new=lambda s: sums(s, n=agg.count(), total=agg.sum("at")),
        said={"migrate": {"op": rc.changes.migrate(drop=["total"])}},
        refused=r"what is stored is the result of the old way.*in the program: rc.Job\(..., migrate=",
        state={"op": rows("n", "total", a=(2, 3000), b=(1, None))},
        anew=frozenset({"total"}),
    ),
    "operator added": Edit(
        new=with_tops,
        state={
            "op": rows("n", "total", a=(2, 11), b=(1, 2)),
            "tops": rows("top", a=(10,)),
        },
        anew=frozenset({"tops"}),
    ),
    "operator removed": Edit(
        old=with_tops,
        new=before,
        said={"without": ["tops"]},
        refused=r"operator 'tops' is gone, .* to drop it, start with without=\['tops'\]",
        state={"op": rows("n", "total", a=(2, 11), b=(1, 2))},
    ),
    "operator renamed": Edit(
        new=lambda s: sums(s, "ops", n=agg.count(), total=agg.sum("v")),
        said={"renamed": {"op": "ops"}},
        refused=r"write rc.Job\(..., renamed=\{'op': 'ops'\}\)",
        state={"ops": rows("n", "total", a=(2, 11), b=(1, 2))},
        live=NAMES,
    ),
    "source renamed": Edit(
        new=lambda s: sums(s, at="input", n=agg.count(), total=agg.sum("v")),
        said={"renamed": {"in": "input"}},
        refused=r"source 'in' is gone, .* write rc.Job\(..., renamed=\{'in': 'input'\}\)",
        state={"op": rows("n", "total", a=(2, 11), b=(1, 2))},
        live=NAMES,
    ),
    "key changed": Edit(
        new=lambda s: [
            written(
                read(s).key_by("at").aggregate(n=agg.count(), total=agg.sum("v"), name="op"),
                s,
                "out",
            )
        ],
        refused="operator 'op': its keys cannot change from k to at: .* give the operator another name",
    ),
    "key beside": Edit(
        new=lambda s: [
            written(read(s).key_by("at").aggregate(n=agg.count(), name="by at"), s, "out")
        ],
        said={"without": ["op"]},
        refused="operator 'op' is gone",
        state={"by at": {3000: {"n": 1}}},
        anew=frozenset({"by at"}),
    ),
    "window changed": Edit(
        old=lambda s: windowed(s, op="1 minute"),
        new=lambda s: windowed(s, op="2 minutes"),
        refused="operator 'op': its windows, or how long it remembers keys, would change",
    ),
    "window beside": Edit(
        old=lambda s: windowed(s, op="1 minute"),
        new=lambda s: windowed(s, op="1 minute", wide="2 minutes"),
        state={
            "op": rows(*WINDOW, a=(*minutes(1), 2), b=(*minutes(1), 1)),
            "wide": rows(*WINDOW, a=(*minutes(2), 1)),
        },
        anew=frozenset({"wide"}),
    ),
    "sink added": Edit(
        new=with_raw,
        state={"op": rows("n", "total", a=(2, 11), b=(1, 2))},
    ),
    "sink removed": Edit(
        old=with_raw,
        new=before,
        state={"op": rows("n", "total", a=(2, 11), b=(1, 2))},
    ),
    "sink moved": Edit(
        new=lambda s: sums(s, place="elsewhere", n=agg.count(), total=agg.sum("v")),
        state={"op": rows("n", "total", a=(2, 11), b=(1, 2))},
        live=r"it was .* and would be .*elsewhere.*rechannel upgrade FILE --yes",
    ),
    "state of track": Edit(
        old=lambda s: tracked(s, kept, "seen bigint"),
        new=lambda s: tracked(s, kept_and_summed, "seen bigint, total bigint"),
        said={"migrate": {"op": rc.changes.migrate(add={"total": 0})}},
        refused=r"the new state has a column 'total' .*in the program: rc.Job\(..., migrate=\{'op'",
        state={"op": rows("seen", "total", a=(2, 10), b=(1, 0))},
        anew=frozenset({"total"}),
    ),
    "kind changed": Edit(
        new=lambda s: tracked(s, kept, "seen bigint"),
        refused="operator 'op': aggregate cannot become track; give the operator another name",
    ),
    "all replaced": Edit(
        new=lambda s: sums(s, "other", at="input", low=agg.min("v")),
        said={"without": ["op", "in"]},
        refused="operator 'op' is gone",
        state={"other": rows("low", a=(1,), b=(2,))},
    ),
}


class World:
    """A state directory with a committed timestep of the first rows, and the second ones in flight.

    in_flight: False = the second ones are not there yet. faults: of the first driver's writes."""

    def __init__(self, old: Flows, *, in_flight: bool = True, faults: Iterable[Any] = ()) -> None:
        self.source, self.store = script(SCHEMA), MemoryStore()
        self.recorders: dict[str, Recorder] = {}
        self.harness = self.bench(old)
        self.harness.start(faults=faults).run()
        self.source.push(FIRST)
        self.harness.process.run()
        if not in_flight:
            return
        self.source.push(SECOND)
        while not self.state.open_intents:
            self.harness.process.step()

    def bench(self, flows: Flows) -> Harness:
        harness = Harness(flows(self.source), store=self.store, settings=QUIET)
        for name, recorder in harness.recorders.items():
            self.recorders.setdefault(name, recorder)
        mine = {name: self.recorders[name] for name in harness.recorders}
        return Harness(flows(self.source), store=self.store, settings=QUIET, recorders=mine)

    @property
    def state(self) -> JournalState:
        return self.harness.journal_state()

    def upgrade(self, new: Flows, faults: Iterable[Any] = (), **said: Any) -> Harness:
        self.harness = self.bench(new)
        self.harness.start(upgrade=True, faults=faults, **said)
        return self.harness


def found(harness: Harness, operator: str) -> dict[Any, dict[str, Any]]:
    table = harness.state(operator)
    key = table.column_names[0]
    return {row.pop(key): row for row in table.to_pylist()}
