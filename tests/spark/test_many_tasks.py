"""Reports that are folded on Spark, as those of many tasks are: state, output, journal and telemetry."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.journal.entries import COLUMNS
from rechannel.engine.spark import reporting
from rechannel.telemetry.task_finished import TaskFinished
from rechannel.telemetry.tasks_finished import TasksFinished
from rechannel.testing import script

SIZES = (30, 400, 5)
MANY = 66
"""Tasks of one operator: beyond the number from which on reports are folded."""


def started(spark: Any, source: Any, state: Path, sums: int) -> Any:
    """A job of three stages, one of which has many tasks or few."""
    rows = rc.read(spark).memory(source, name="in")
    sums_of = rows.key_by("k").aggregate(s=agg.sum("v"), name="sums", tasks=sums)
    last = sums_of.key_by("s").aggregate(n=agg.count(), name="last", tasks=2)
    return rc.Job("many", last.write.memory("out"), state=state).start()


def entries(state: Path) -> Counter[int]:
    """How many commits have which format."""
    found = (json.loads(path.read_bytes()) for path in sorted((state / "journal").glob("*.json")))
    return Counter(entry["format"] for entry in found if entry["kind"] == "committed")


def test_an_operator_with_many_tasks_is_reported_in_columns(spark: Any, tmp_path: Path):
    source, sums, number = script("k BIGINT, v BIGINT"), Counter[int](), 0
    job = started(spark, source, tmp_path / "state", MANY)
    for size in SIZES:
        given = [{"k": v % 97, "v": v} for v in range(number, number + size)]
        number += size
        source.push(given)
        job.process_all_available(240)
        for row in given:
            sums[row["k"]] += row["v"]
    assert {row["k"]: row["s"] for row in job.state("sums").collect()} == sums
    job.stop()
    assert entries(tmp_path / "state") == {COLUMNS: len(SIZES)}
    events = list(rc.monitoring.read_events(tmp_path / "state" / "telemetry"))
    many = [event for event in events if isinstance(event, TasksFinished)]
    few = {event.operator for event in events if isinstance(event, TaskFinished)}
    assert [(event.operator, event.number) for event in many] == [("sums", MANY)] * len(SIZES)
    assert [event.rows_in for event in many] == list(SIZES)
    assert all(event.measured_all for event in many), "Spark's figures are missing"
    assert few >= {"last"}

    # A restart reads the columns, and goes on with them.
    job = started(spark, source, tmp_path / "state", MANY)
    source.push([{"k": 1, "v": 1_000}])
    job.process_all_available(240)
    sums[1] += 1_000
    assert {row["k"]: row["s"] for row in job.state("sums").collect()} == sums
    job.stop()


def test_the_last_operator_too(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folded = Counter[int]()
    call = reporting.Unit.run

    def counted(unit: Any, *given: Any) -> Any:
        reports = call(unit, *given)
        folded[sum(report.tasks for report in reports)] += 1
        return reports

    monkeypatch.setattr(reporting, "MANY", 1)
    monkeypatch.setattr(reporting.Unit, "run", counted)
    source = script("k BIGINT, v BIGINT")
    job = started(spark, source, tmp_path / "state", 2)
    source.push([{"k": v % 7, "v": v} for v in range(50)])
    job.process_all_available(240)
    assert sum(row["n"] for row in job.state("last").collect()) == 7
    job.stop()
    assert folded, "no reports were folded"
    assert entries(tmp_path / "state") == {COLUMNS: 1}
