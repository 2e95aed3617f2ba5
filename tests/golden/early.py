"""A small state directory in the first format of the journal, as commit 19c0201 began it.

    git worktree add --detach /tmp/early 19c0201
    PYTHONPATH=/tmp/early/src:. python -m tests.golden.early

writes it anew. That commit neither journalled incarnations of names nor digests of files.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.settings import Settings
from rechannel.testing import Harness, ManualClock, MemoryStore, script

HERE = Path(__file__).parent / "format-1"
SETTINGS = Settings(tasks=2, bins=4, in_flight=2, keep_versions=2, snapshot_every=3)
BEFORE, AFTER = 7, 3
"""Batches that the driver that dies is given, and later ones."""


BEGIN_MS = 1_700_000_000_000


def events(batch: int) -> list[dict[str, Any]]:
    """Rows of a batch: ten seconds of event time."""
    numbers = range(batch * 12, batch * 12 + 12)
    first_us = (BEGIN_MS + batch * 10_000) * 1_000
    return [
        {"item": n * 5 % 7, "price": n * 13 % 50 / 4, "at": first_us + n % 12 * 800_000}
        for n in numbers
    ]


def spent(key: Any, state: Any, rows: Any) -> Any:
    return (state or 0.0) + sum(rows["price"])


def flows(feed: Any) -> list[Any]:
    """Operators that have been there from the beginning."""
    events = rc.read().memory(feed, name="events").event_time("at", delay="5 seconds", name="timed")
    keyed = events.key_by("item")
    made = [
        keyed.aggregate(n=agg.count(), mean=agg.mean("price"), name="totals"),
        keyed.window(rc.windows.tumbling("20 seconds")).aggregate(n=agg.count(), name="windows"),
        keyed.track(spent, state="total double", name="spent"),
    ]
    return [stream.write.memory(stream.name, name=f"{stream.name}-out") for stream in made]


def harness(store: MemoryStore, batches: int, **more: Any) -> Harness:
    """A bench on a store, with so many batches to read."""
    feed = script("item bigint, price double, at timestamp", map(events, range(batches)))
    clock = ManualClock(BEGIN_MS)
    return Harness(flows(feed), store=store, settings=SETTINGS, clock=clock, **more)


def begin() -> MemoryStore:
    """A driver that dies with timesteps and a change under way."""
    store = MemoryStore()
    harness(store, BEFORE - 3).start().run()
    bench = harness(store, BEFORE)
    bench._names = map("second{}".format, count())
    process = bench.start()
    process.reconfigure(rc.changes.rescale("totals", tasks=4), rc.strategies.fluid())
    while not (process.journal.state.open_intents and _moving(process)):
        assert process.step()
    return store


def _moving(process: Any) -> bool:
    return any(one.taken and one.left for one in process.journal.state.coordination.open)


def load() -> MemoryStore:
    """A copy of the directory."""
    store = MemoryStore()
    for path in sorted(path for path in HERE.rglob("*") if path.is_file()):
        store.put(path.relative_to(HERE).as_posix(), path.read_bytes())
    return store


if __name__ == "__main__":
    made = begin()
    for key in made.list(""):
        path = HERE / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(made.read(key)))
