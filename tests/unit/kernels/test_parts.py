"""Tasks that get more than they may hold: what comes out is the same, part by part, with data on disk."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter

import pytest

import rechannel as rc
from rechannel.kernels import parts, stateful, storing
from rechannel.kernels.spool import Spool
from rechannel.settings import Settings
from rechannel.state.merging import MergePolicy
from rechannel.testing import Harness, script

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMA = "k bigint, s string, v bigint, at timestamp"
TINY = 1 << 13


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often tasks had parts, spilled, and merged in parts."""
    counts: Counter[str] = Counter()
    monkeypatch.setattr(parts, "SAMPLE", 1)
    monkeypatch.setattr(stateful, "IN_HAND", 64)
    cut, write, bounded = parts.Load.parts, Spool.write, storing.Storing._bounded

    def counted(load: parts.Load, memory: int) -> int:
        number = cut(load, memory)
        counts["parts"] += number > 1
        return number

    def written(spool: Spool, data: object) -> tuple[int, int]:
        counts["spilled"] += 1
        return write(spool, data)

    def halves(self, runs, met, where):
        some = list(bounded(self, runs, met, where))
        counts["merges"] += len(some) > 1
        yield from some

    monkeypatch.setattr(parts.Load, "parts", counted)
    monkeypatch.setattr(Spool, "write", written)
    monkeypatch.setattr(storing.Storing, "_bounded", halves)
    return counts


def add(key, state, rows):
    total = (state or 0) + sum(rows["v"])
    return None if total % 7 == 0 else total


def timed(stream):
    return stream.event_time("at", delay="3 seconds")


PROGRAMS = {
    "aggregate": lambda s: s.key_by("k").aggregate(
        n=rc.count(), t=rc.sum("v"), f=rc.first("s"), l=rc.last_n("v", 3), name="op"
    ),
    "two columns": lambda s: s.key_by("k", "s").aggregate(t=rc.sum("v"), name="op"),
    "top": lambda s: s.key_by("k").top(2, by="v", name="op"),
    "track": lambda s: s.key_by("k").track(add, state="n bigint", name="op"),
    "deduplicate": lambda s: s.deduplicate("k", "s", name="op"),
    "running": lambda s: s.key_by("k").running(before=rc.lag("v"), name="op"),
    "join": lambda s: s.join(s.select("k", w="v"), "k", how="inner", name="op"),
    "tumbling": lambda s: (
        timed(s).key_by("k").window(rc.tumbling("5 seconds")).aggregate(n=rc.count(), name="op")
    ),
    "sliding": lambda s: (
        timed(s)
        .key_by("k")
        .window(rc.sliding("6 seconds", "2 seconds"))
        .aggregate(t=rc.sum("v"), m=rc.min("v"), name="op")
    ),
    "sums that slide": lambda s: (
        timed(s)
        .key_by("k")
        .window(rc.sliding("6 seconds", "2 seconds"))
        .aggregate(t=rc.sum("v"), name="op")
    ),
    "sessions": lambda s: (
        timed(s).key_by("k").window(rc.sessions("2 seconds")).aggregate(n=rc.count(), name="op")
    ),
}


def output(program, task_bytes: int | None) -> tuple[list[list[str]], list[str]]:
    """Rows that come out in every timestep, and the state at the end, in any order."""
    draw = random.Random(3)
    batches = [
        [
            {
                "k": draw.randrange(16),
                "s": draw.choice("abc") * 20,
                "v": draw.randrange(100),
                "at": START + dt.timedelta(seconds=2 * t + draw.randrange(5)),
            }
            for _ in range(100)
        ]
        for t in range(4)
    ]
    source = script(SCHEMA, batches, partitions=3)
    settings = Settings(
        tasks=2, bins=8, merging=MergePolicy(fan=2, slice_rows=1), task_bytes=task_bytes
    )
    stream = program(rc.read().memory(source, name="in"))
    harness = Harness(stream.write.memory("out"), settings=settings)
    harness.start().run()
    rows = [sorted(map(repr, table.to_pylist())) for table in harness.outputs().values()]
    return rows, sorted(map(repr, harness.state("op").to_pylist()))


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_parts_change_nothing(name: str, seen: Counter[str]):
    expected = output(PROGRAMS[name], None)
    assert not +seen
    assert output(PROGRAMS[name], TINY) == expected
    assert seen["parts"]
    assert seen["spilled"]


def test_merges_of_more_than_a_task_may_hold_go_part_by_part(seen: Counter[str]):
    expected = output(PROGRAMS["two columns"], None)
    seen.clear()
    assert output(PROGRAMS["two columns"], 1 << 11) == expected
    assert seen["merges"]
