"""Windows that are shown before they are complete, at an interval of processing time."""

from datetime import UTC, datetime, timedelta

import pytest

import rechannel as rc
from rechannel.errors import DataflowError, RefusedError
from rechannel.testing import Harness, script

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def row(user, seconds, x=1):
    return {"user": user, "x": x, "at": EPOCH + timedelta(seconds=seconds)}


class Bench:
    """Counts per user in windows of an hour; `clock` is the machine's, seconds."""

    def __init__(self, interval="10 seconds", *, size="1 hour", tasks=2, **options):
        self.rows = script("user STRING, x BIGINT, at TIMESTAMP")
        stream = rc.read().memory(self.rows, name="rows").event_time("at")
        windows = stream.key_by("user").window(
            rc.tumbling(size), emit=rc.every(interval), **options
        )
        counts = windows.aggregate(n=rc.count(), name="counts")
        self.clock, self.told = 100.0, []
        self.harness = Harness(
            counts.write.memory("out", name="out"),
            settings=rc.Settings(tasks=tasks, bins=4),
            clock=lambda: self.clock * 1_000,
        )
        self.start()

    def start(self):
        self.harness.start()
        run = self.harness.process.runner.run
        self.harness.process.runner.run = lambda *a: self.told.extend(found := run(*a)) or found

    def step(self, clock, *rows):
        """What the machine does at a time, with these rows; what was shown, (user, n)."""
        self.clock = clock
        self.told.clear()
        before = len(self.harness.outputs("out"))
        if rows:
            self.rows.push(list(rows))
        self.harness.process.run()
        shown = self.harness.outputs("out")
        self.timesteps = len(shown) - before
        return sorted(
            (r["user"], r["n"]) for t in sorted(shown)[before:] for r in shown[t].to_pylist()
        )

    def counted(self, name):
        return sum(r["counts"].get(name, 0) for r in self.told if r["operator"] == "counts")


def test_windows_that_got_rows_are_shown_at_the_first_timestep_of_an_interval():
    bench = Bench()
    assert bench.step(101, row("ann", 1), row("bob", 2), row("ann", 3)) == []
    assert bench.step(109.9, row("ann", 4)) == []
    assert bench.step(110, row("cid", 5)) == [("ann", 3), ("bob", 1), ("cid", 1)]
    assert bench.step(115, row("bob", 6)) == []
    # Nothing comes in: there is a timestep without rows, and only where something has changed.
    assert bench.step(120) == [("bob", 2)]
    assert bench.timesteps == 1
    assert bench.step(130) == []
    assert bench.timesteps == 0
    # Complete windows are shown as ever, beside those that are not.
    assert bench.step(145, row("ann", 3_700)) == [("ann", 1), ("ann", 3), ("bob", 2), ("cid", 1)]
    assert bench.step(160) == []
    assert bench.step(165, row("dan", 3_800)) == [("dan", 1)]
    assert bench.step(166, row("dan", 3_900)) == []
    assert bench.step(171, row("dan", 7_300)) == [("ann", 1), ("dan", 1), ("dan", 2)]
    assert bench.timesteps == 1


def test_it_goes_on_behind_a_restart_and_with_other_tasks():
    bench = Bench()
    bench.step(101, row("ann", 1), row("bob", 2))
    bench.start()
    bench.harness.process.reconfigure(rc.rescale("counts", 3))
    assert bench.step(112) == [("ann", 1), ("bob", 1)]
    bench.start()
    assert bench.step(113, row("bob", 2)) == []
    bench.harness.process.reconfigure(rc.rescale("counts", 1))
    assert bench.step(119, row("bob", 2)) == []
    assert bench.step(121) == [("bob", 3)]


def test_what_has_not_changed_is_not_read():
    bench = Bench(tasks=1)
    for number in range(20):
        bench.step(100 + number / 10, *(row(f"u{number}-{i}", 1) for i in range(100)))
    assert len(bench.step(110)) == 2_000
    for number in range(10):
        assert bench.step(111 + number / 10, row("ann", 5 + number)) == []
    assert bench.step(120) == [("ann", 10)]
    assert bench.counted("rows_read") < 700


def test_sessions_are_shown_as_they_grow():
    rows = script("user STRING, x BIGINT, at TIMESTAMP")
    keyed = rc.read().memory(rows, name="rows").event_time("at").key_by("user")
    made = keyed.window(rc.sessions("1 minute"), emit=rc.every("10 seconds"))
    clock = 100.0
    harness = Harness(
        made.aggregate(n=rc.count(), name="visits").write.memory("out", name="out"),
        settings=rc.Settings(tasks=2, bins=4),
        clock=lambda: clock * 1_000,
    )
    harness.start()
    shown = []
    for at, came in (
        (101, [row("ann", 1), row("bob", 2)]),
        (105, [row("ann", 50)]),
        (110, []),
        (121, [row("bob", 60)]),
        (122, [row("ann", 111)]),
        (130, []),
        (140, []),
    ):
        clock = at
        before = len(harness.outputs("out"))
        if came:
            rows.push(came)
        harness.process.run()
        outputs = harness.outputs("out")
        found = [r for t in sorted(outputs)[before:] for r in outputs[t].to_pylist()]
        shown.append(sorted((r["user"], (r["window_end"] - EPOCH).seconds, r["n"]) for r in found))
    assert shown == [
        [],
        [],
        [("ann", 110, 2), ("bob", 62, 1)],
        [("bob", 120, 2)],
        [("ann", 110, 2)],
        [("ann", 171, 1)],
        [],
    ]


def test_windows_of_processing_time():
    rows = script("user STRING")
    windows = rc.read().memory(rows, name="rows").key_by("user")
    made = windows.window(rc.tumbling("1 minute"), emit=rc.every("10 seconds"), time="processing")
    clock = 60_000
    harness = Harness(
        made.aggregate(n=rc.count(), name="counts").write.memory("out", name="out"),
        clock=lambda: clock,
    )
    harness.start()
    shown = []
    for clock in (61_000, 69_000, 70_000, 85_000, 119_000, 120_000, 130_000):
        if clock in (61_000, 85_000):
            rows.push([{"user": "ann"}])
        harness.process.run()
        shown.append([r["n"] for t in harness.outputs("out").values() for r in t.to_pylist()])
    assert shown == [[], [], [1], [1, 2], [1, 2], [1, 2, 2], [1, 2, 2]]


def test_other_aggregates_while_it_runs_but_not_another_way_of_showing():
    bench = Bench()
    bench.step(101, row("ann", 1))
    change = {"n": rc.count(), "total": rc.sum("x")}
    bench.harness.process.reconfigure(rc.change_logic("counts", change))
    assert bench.step(102, row("ann", 2)) == []
    assert bench.step(110) == [("ann", 2)]


def test_what_makes_no_sense_is_refused():
    keyed = rc.read().memory(script("user STRING, at TIMESTAMP")).event_time("at").key_by("user")
    for wrong, words in (
        (
            lambda: keyed.window(rc.sliding(10, 5), emit=rc.every(1_000), time="processing"),
            "in event time for rc.sliding",
        ),
        (lambda: keyed.window(rc.counting(10), emit=rc.every(1_000)), "rc.tumbling"),
        (lambda: rc.every(0), "interval of rc.every"),
        (lambda: rc.every(timedelta(microseconds=5)), "whole milliseconds"),
        (
            lambda: keyed.window(rc.tumbling(10), emit=rc.every(1_000)).top(1, by="user"),
            "are shown when complete",
        ),
        (
            lambda: (
                keyed.window(rc.tumbling(10), emit=rc.every(1_000))
                .aggregate(n=rc.count())
                .window(rc.same_window())
                .top(1, by="n")
            ),
            "twice",
        ),
    ):
        with pytest.raises((DataflowError, RefusedError), match=words):
            wrong()
