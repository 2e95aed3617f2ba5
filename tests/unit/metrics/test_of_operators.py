"""What metrics of operators read."""

from __future__ import annotations

from types import SimpleNamespace

from rechannel.metrics.of_operators import METRICS
from rechannel.telemetry.task_finished import JudgedRows, TaskFinished
from rechannel.telemetry.totals import Totals


def read(totals):
    seen = SimpleNamespace(
        sums=totals.sums, status=SimpleNamespace(operators={}), bins={"users": 8}
    )
    return {metric.name: dict(metric.read(seen)) for metric in METRICS}


def test_bad_rows_are_counted_by_operator_and_expectation():
    totals = Totals()
    assert read(totals)["rechannel.bad.rows"] == {}
    judged = JudgedRows(node="check", rows=5, bad=2, failed={"small": 2, "known": 0})
    task = {"operator": "in", "attempt": "a", "host": "h", "started_ms": 0, "finished_ms": 1}
    totals.see(*(TaskFinished(timestep=1, task=n, judged=(judged,), **task) for n in range(2)))
    found = read(totals)
    assert found["rechannel.judged.rows"] == {("check",): 10}
    assert found["rechannel.bad.rows"] == {("check",): 4}
    assert found["rechannel.expectation.failed.rows"] == {
        ("check", "small"): 4,
        ("check", "known"): 0,
    }


def test_time_is_counted_by_operator_and_activity():
    totals = Totals()
    totals.see(
        TaskFinished(
            timestep=1,
            operator="users",
            task=0,
            attempt="a",
            host="h",
            started_ms=0,
            finished_ms=9,
            ms={"lookup": 4.0, "write": 2.0},
            rows_in=3,
        )
    )
    found = read(totals)
    assert found["rechannel.operator.task.time"] == {
        ("users", "lookup"): 0.004,
        ("users", "write"): 0.002,
    }
    assert found["rechannel.operator.rows.in"] == {("users",): 3}
    assert found["rechannel.operator.bins"] == {("users",): 8}
