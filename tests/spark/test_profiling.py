"""Profiles of real applications."""

import time

import pytest

from rechannel.profiling.live import Live

MS = 1_000_000


def now():
    return time.time_ns() // MS


def grouped(spark, rows):
    return spark.range(0, rows, 1, 2).selectExpr("id % 100 AS k").groupBy("k").count().collect()


def test_a_running_session_tells_what_its_tasks_do(spark):
    watch, start = Live.of(spark), now()
    for _ in range(3):
        assert len(grouped(spark, 200_000)) == 100
    end = now()
    time.sleep(0.5)
    found = watch.window(start, end)
    assert found.profile.cells.collect()["critical"].sum() == pytest.approx(1, abs=1e-9)
    workers = set(found.profile.by_worker()["worker"])
    assert "driver" in workers
    assert any(worker.startswith("executor") for worker in workers)
    work = found.profile.by_activity()
    assert work.filter(work["kind"] == "processing")["ns"].sum() > 0
    tasks = found.trace.activities
    assert int(tasks.end.max()) <= (end + 1) * MS
