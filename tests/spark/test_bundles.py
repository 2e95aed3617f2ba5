"""Short tasks of an operator share tasks of Spark: state, output and figures are those of the tasks themselves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.stages import short_tasks
from rechannel.telemetry.task_finished import TaskFinished
from rechannel.testing import script

SIZES = (300, 40, 500, 0, 7)
TASKS = 7
CORES = 2
"""Of the session that tests share."""


@pytest.fixture(autouse=True)
def always_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks are short, however slow the machine is."""
    monkeypatch.setattr(short_tasks, "SHORT_MS", float("inf"))


def tasks_of(state: Path, operator: str) -> dict[int, list[TaskFinished]]:
    """Its tasks by timestep."""
    found: dict[int, list[TaskFinished]] = {}
    for event in rc.monitoring.read_events(state / "telemetry"):
        if isinstance(event, TaskFinished) and event.operator == operator:
            found.setdefault(event.timestep, []).append(event)
    return found


def pushed(source: Any, job: Any, name: str = "v") -> Counter[int]:
    """Sums of what a source has been given, timestep by timestep."""
    sums, number = Counter[int](), 0
    for size in SIZES:
        given = [{"k": v % 97, name: v} for v in range(number, number + size)]
        number += size
        if given:
            source.push(given)
        job.process_all_available(240)
        for row in given:
            sums[row["k"]] += row[name]
    return sums


def test_the_tasks_of_a_bundle_are_tasks(spark: Any, tmp_path: Path) -> None:
    assert spark.sparkContext.defaultParallelism == CORES
    source = script("k BIGINT, v BIGINT")
    rows = rc.read(spark).memory(source, name="in")
    sums_of = rows.key_by("k").aggregate(s=agg.sum("v"), name="sums", tasks=TASKS)
    last = sums_of.key_by("s").aggregate(n=agg.count(), name="last", tasks=TASKS)
    job = rc.Job("bundles", last.write.memory("out"), state=tmp_path / "state").start()
    sums = pushed(source, job)
    assert {row["k"]: row["s"] for row in job.state("sums").collect()} == sums
    job.stop()
    for operator in ("sums", "last"):
        (_, alone), *later = sorted(tasks_of(tmp_path / "state", operator).items())
        assert len(tell(alone)) == TASKS, "nothing is known before the first"
        assert later
        for _, tasks in later:
            assert sorted(task.task for task in tasks) == list(range(TASKS))
            bundles = tell(tasks)
            assert sorted(bundles) == [[0, 1, 2], [3, 4, 5, 6]]
            for bundle in bundles:
                figures = [next(t.spark for t in tasks if t.task == number) for number in bundle]
                assert all(figures), "Spark's figures are missing"
                ends = [each.finish_ms for each in figures if each]
                begins = [each.launch_ms for each in figures if each]
                assert begins[1:] == ends[:-1]


def tell(tasks: list[TaskFinished]) -> list[list[int]]:
    """The numbers of those that shared a task of Spark, in the order in which they ran."""
    found: dict[int, list[TaskFinished]] = {}
    for task in tasks:
        assert task.spark_task is not None
        found.setdefault(task.spark_task.task, []).append(task)
    return [
        [task.task for task in sorted(shared, key=lambda task: task.started_ms)]
        for shared in found.values()
    ]


def test_bundles_of_an_operator_with_two_producers(spark: Any, tmp_path: Path) -> None:
    """Whose rows come through one exchange."""
    left, right = script("k BIGINT, v BIGINT"), script("k BIGINT, w BIGINT")
    sides = [
        rc.read(spark).memory(source, name=name).key_by("k")
        for name, source in (("left", left), ("right", right))
    ]
    sums = [
        side.aggregate(s=agg.sum(column), name=f"{column} sums", tasks=TASKS)
        for side, column in zip(sides, "vw", strict=True)
    ]
    renamed = [
        of.map_batches(lambda rows: rows, schema="k BIGINT, s BIGINT", name=f"rows {i}")
        for i, of in enumerate(sums)
    ]
    both = renamed[0].union(renamed[1]).key_by("k")
    seen = both.aggregate(largest=agg.max("s"), name="both", tasks=TASKS)
    job = rc.Job("bundles", seen.write.memory("out"), state=tmp_path / "state").start()
    of_left = pushed(left, job)
    of_right = pushed(right, job, "w")
    expected = {k: max(of_left[k], of_right[k]) for k in {*of_left, *of_right}}
    assert {row["k"]: row["largest"] for row in job.state("both").collect()} == expected
    job.stop()
    tasks = tasks_of(tmp_path / "state", "both")
    assert any(len(tell(each)) == CORES for each in tasks.values())
