"""Profiles of real applications."""

import re
import time
from datetime import timedelta
from pathlib import Path

import pytest

import rechannel as rc
from rechannel.errors import SessionError
from rechannel.profiling.files.table import write_trace
from rechannel.profiling.model import pieces
from rechannel.profiling.spark.live import LiveSession
from tests.unit.profiling.model.test_findings import rounds

MS = 1_000_000


def now():
    return time.time_ns() // MS


def grouped(spark, rows):
    return spark.range(0, rows, 1, 2).selectExpr("id % 100 AS k").groupBy("k").count().collect()


def test_a_running_session_tells_what_its_tasks_do(spark):
    watch, start = LiveSession.of(spark), now()
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
    tasks = found.pieces.source.whole().activities
    assert int(tasks.end.max()) <= (end + 1) * MS


def test_a_watch_sees_a_session_at_work(spark):
    with rc.profile_session(spark, window=timedelta(milliseconds=400)) as watch:
        for number, _ in enumerate(watch):
            grouped(spark, 200_000)
            if number == 3:
                break
    kinds = set(watch.profile().by_activity()["kind"])
    assert {"processing", "scheduling", "control message"} <= kinds
    assert any("Exchange" in name for name in watch.profile().by_operator()["operator"])
    assert all(found.notes == [] for found in watch.windows[:3])


def test_the_page_s_example_of_a_running_session(spark, capsys):
    page = (Path(__file__).parents[2] / "docs" / "profiling.md").read_text()
    (block,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    exec(compile(block, "profiling.md", "exec"), {"rc": rc, "spark": spark})
    *windows, operators = capsys.readouterr().out.splitlines()
    assert windows
    assert all("of the critical path" in line for line in windows)
    assert "Exchange > HashAggregate" in operators or "Exchange (collect" in operators


def test_windows_are_analysed_on_spark_and_come_to_the_same(spark, tmp_path, monkeypatch):
    file = tmp_path / "trace.parquet"
    write_trace(rounds((30, 10, 10, 10), 1, steps=20), file)
    alone = rc.profile(file, window="1 second")
    # Many pieces, so that there are several rounds of several tasks.
    monkeypatch.setattr(pieces, "PIECE_ROWS", 20)
    tracker = spark.sparkContext.statusTracker()
    last = max(tracker.getJobIdsForGroup(), default=-1)
    found = rc.profile(file, window="1 second", spark=spark)
    assert len(found.pieces) > 2 * spark.sparkContext.defaultParallelism
    assert max(tracker.getJobIdsForGroup()) - last > 2
    by = ["window", "kind", "worker", "peer", "operator"]
    one, two = (each.profile.cells.collect().sort(by) for each in (alone, found))
    assert one.drop("critical", "profile").equals(two.drop("critical", "profile"))
    assert max(abs(one["critical"] - two["critical"])) < 1e-12
    assert [each.text for each in alone.findings] == [each.text for each in found.findings]


def test_a_connect_session_is_refused(tmp_path):
    with pytest.raises(SessionError, match="classic session"):
        rc.profile(tmp_path / "any", spark=object())
