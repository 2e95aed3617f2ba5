from __future__ import annotations

import threading

from rechannel.telemetry.events import SinkPublished, TimestepCommitted, TimestepFailed
from rechannel.telemetry.task_finished import TaskFinished
from rechannel.telemetry.totals import BOUNDS, Totals


def task(operator, rows, ms=5.0):
    return TaskFinished(
        timestep=1, operator=operator, task=0, attempt="a", host="h", started_ms=0.0,
        finished_ms=ms, ms={"process": ms, "wait": 1.0}, rows_in=rows, rows_out=1, bytes_in=8,
        counts={"rows_late": 2},
    )  # fmt: skip


def committed(duration_ms, rows=3):
    return TimestepCommitted(timestep=1, at_ms=0, duration_ms=duration_ms, rows_in=rows, rows_out=1)


def test_everything_is_summed():
    totals = Totals()
    totals.see(task("a", 4), task("a", 6), task("b", 1), committed(20.0), committed(400_000.0))
    totals.see(TimestepFailed(timestep=1, at_ms=0, error="E"))
    totals.see(SinkPublished(timestep=1, sink="out", at_ms=0, duration_ms=10.0))
    sums = totals.sums
    a = sums.operators["a"]
    assert (a.rows_in, a.rows_out, a.rows_late, a.rows_dead) == (10, 2, 4, 0)
    assert (a.bytes_in, a.seconds) == (16, {"process": 0.01, "wait": 0.002})
    assert (sums.rows_in, sums.rows_out, sums.failed) == (6, 2, 1)
    assert sums.committed.total == 400.02
    assert sums.committed.counts == [0, 1, *[0] * (len(BOUNDS) - 2), 1]
    assert sums.published["out"].counts[0] == 1  # the upper end belongs to a class


def test_what_was_read_does_not_change():
    totals = Totals()
    totals.see(task("a", 1), committed(1.0))
    before = totals.sums
    totals.see(task("a", 1), committed(1.0), SinkPublished(timestep=1, sink="out", at_ms=0))
    assert (before.operators["a"].rows_in, sum(before.committed.counts)) == (1, 1)
    assert before.operators["a"].seconds["process"] == 0.005
    assert before.published == {}


def test_any_thread_may_tell():
    totals = Totals()
    threads = [
        threading.Thread(target=lambda: [totals.see(task("a", 1)) for _ in range(500)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert totals.sums.operators["a"].rows_in == 2000
