"""Tasks that get more than they may hold: what comes out is the same, part by part, with data on disk."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.kernels.lsm import footprint
from rechannel.kernels.shuffle.spool import Spool
from rechannel.kernels.tasks import parts, stateful_task, storing
from rechannel.kernels.tasks.binned import unpack_bins
from rechannel.kernels.tasks.report import TaskReport
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
    monkeypatch.setattr(stateful_task, "IN_HAND", 64)
    cut, write, bounded = parts.Demand.parts, Spool.write, storing.Storing._bounded

    def counted(demand: parts.Demand, memory: int) -> int:
        number = cut(demand, memory)
        counts["parts"] += number > 1
        return number

    def written(spool: Spool, data: object) -> tuple[int, int]:
        counts["spilled"] += 1
        return write(spool, data)

    def halves(self, runs, met, where):
        some = list(bounded(self, runs, met, where))
        counts["merges"] += len(some) > 1
        yield from some

    monkeypatch.setattr(parts.Demand, "parts", counted)
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
        n=agg.count(), t=agg.sum("v"), f=agg.first("s"), l=agg.last_n("v", 3), name="op"
    ),
    "two columns": lambda s: s.key_by("k", "s").aggregate(t=agg.sum("v"), name="op"),
    "top": lambda s: s.key_by("k").top(2, by="v", name="op"),
    "track": lambda s: s.key_by("k").track(add, state="n bigint", name="op"),
    "deduplicate": lambda s: s.deduplicate("k", "s", name="op"),
    "running": lambda s: s.key_by("k").running(before=agg.lag("v"), name="op"),
    "join": lambda s: s.join(s.select("k", w="v"), "k", how="inner", name="op"),
    "tumbling": lambda s: (
        timed(s)
        .key_by("k")
        .window(rc.windows.tumbling("5 seconds"))
        .aggregate(n=agg.count(), name="op")
    ),
    "sliding": lambda s: (
        timed(s)
        .key_by("k")
        .window(rc.windows.sliding("6 seconds", "2 seconds"))
        .aggregate(t=agg.sum("v"), m=agg.min("v"), name="op")
    ),
    "sums that slide": lambda s: (
        timed(s)
        .key_by("k")
        .window(rc.windows.sliding("6 seconds", "2 seconds"))
        .aggregate(t=agg.sum("v"), name="op")
    ),
    "sessions": lambda s: (
        timed(s)
        .key_by("k")
        .window(rc.windows.sessions("2 seconds"))
        .aggregate(n=agg.count(), name="op")
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


def test_rows_per_bin_are_those_of_all_parts(seen: Counter[str], monkeypatch: pytest.MonkeyPatch):
    """A part may have waiting state and no rows."""
    reports: list[TaskReport] = []
    count = stateful_task.rows_per_bin

    def counted(routing, received):
        found = count(routing, received)
        seen["without rows"] += found is None
        return found

    def kept(**facts) -> TaskReport:
        reports.append(TaskReport(**facts))
        return reports[-1]

    monkeypatch.setattr(stateful_task, "rows_per_bin", counted)
    monkeypatch.setattr(stateful_task, "TaskReport", kept)
    output(PROGRAMS["tumbling"], TINY)
    assert seen["parts"]
    assert seen["without rows"]
    for report in reports:
        assert report.state is not None
        found = 0 if report.state.bins is None else unpack_bins(report.state.bins).sum()
        assert found == report.costs.counts["rows_in"]


def test_merges_of_more_than_a_task_may_hold_go_part_by_part(seen: Counter[str]):
    expected = output(PROGRAMS["two columns"], None)
    seen.clear()
    assert output(PROGRAMS["two columns"], 1 << 11) == expected
    assert seen["merges"]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes of state tasks looked at, each time that they did."""
    sizes: list[int] = []
    collect = stateful_task.collect

    def collected(*args: object, **more: object) -> object:
        found = collect(*args, **more)
        sizes.append(sum(column.nbytes for column in [*found.keys, *found.state]))
        return found

    monkeypatch.setattr(stateful_task, "collect", collected)
    return sizes


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many hashes state was counted at, each time that it was."""
    asked: list[int] = []
    at = footprint.Footprint.at.__func__

    def counted(cls, logic, runs, met):
        asked.append(len(met.hashes))
        return at(cls, logic, runs, met)

    monkeypatch.setattr(footprint.Footprint, "at", classmethod(counted))
    return asked


KEYS, EACH = 40, 25
BUDGET = 1 << 16


def meet(left: list[list[dict]], right: list[list[dict]], task_bytes: int) -> list[list[str]]:
    """What an inner join emits, timestep by timestep, in any order."""
    one = rc.read().memory(script("k bigint, s string", left, partitions=2), name="left")
    other = rc.read().memory(script("k bigint, w bigint", right, partitions=2), name="right")
    joined = one.join(other, "k", name="op")
    settings = Settings(tasks=1, bins=4, task_bytes=task_bytes)
    harness = Harness(joined.write.memory("out"), settings=settings)
    harness.start().run()
    return [sorted(map(repr, t.to_pylist())) for t in harness.outputs().values()]


def many(keys: range) -> list[dict]:
    return [{"k": key, "s": "x" * 200} for key in keys for _ in range(EACH)]


def few(keys: range) -> list[dict]:
    return [{"k": key, "w": key} for key in keys]


def test_few_rows_that_meet_much_state_are_handled_in_parts(held: list[int], counts: list[int]):
    ahead = [many(range(KEYS)), []], [[], few(range(KEYS))]
    expected = meet(*ahead, 1 << 30)
    assert not counts
    assert max(held) > 3 * BUDGET  # all at once
    held.clear()
    assert meet(*ahead, BUDGET) == expected
    assert counts == [KEYS]
    assert max(held) < 2 * BUDGET // parts.SHARE + 3 * EACH * 250


def test_one_key_with_much_state_is_parted_from_the_others(held: list[int]):
    rows = many(range(KEYS)) + many(range(7, 8)) * 12
    ahead = [rows, []], [[], few(range(KEYS))]
    expected = meet(*ahead, 1 << 30)
    held.clear()
    assert meet(*ahead, BUDGET) == expected
    assert max(held) < 13 * EACH * 250 + 2 * BUDGET // parts.SHARE


def test_only_state_that_is_looked_at_counts(monkeypatch: pytest.MonkeyPatch):
    counted: list[float] = []
    at = footprint.Footprint.at

    def noted(*args: object) -> footprint.Footprint:
        found = at(*args)
        counted.append(found.total)
        return found

    monkeypatch.setattr(footprint.Footprint, "at", noted)
    meet([many(range(KEYS)), [{"k": 1, "s": "y"}]], [few(range(KEYS)), []], BUDGET)
    assert (
        0 < counted[-1] < 1000
    )  # a row of the left meets one of the right, not 25 of 200 characters


def test_state_is_not_counted_where_all_that_there_is_fits(counts: list[int]):
    ahead = [many(range(2)), []], [[], few(range(2))]
    meet(*ahead, 1 << 20)
    assert not counts


def test_what_is_shown_early_counts(monkeypatch: pytest.MonkeyPatch):
    waiting: list[float] = []
    cut = parts.Demand.parts

    def noted(demand: parts.Demand, memory: int) -> int:
        waiting.append(demand.waiting)
        return cut(demand, memory)

    monkeypatch.setattr(parts.Demand, "parts", noted)
    rows = script("k bigint, v bigint, at timestamp", partitions=1)
    stream = timed(rc.read().memory(rows, name="in")).key_by("k")
    windows = stream.window(rc.windows.tumbling("1 hour"), emit=rc.every("1 minute"))
    shown = windows.aggregate(n=agg.count(), name="op")
    harness = Harness(shown.write.memory("out"), settings=Settings(tasks=1, bins=4))
    harness.start()
    for seconds in (0, 20, 20, 60):
        harness.clock.advance(dt.timedelta(seconds=seconds))
        rows.push([{"k": key, "v": 1, "at": START} for key in range(9)])
        harness.process.run()
    # Nothing is complete, but what changed since windows were last shown is shown early.
    assert waiting[-1] > 0, waiting
