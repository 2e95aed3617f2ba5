"""Applications made of values, for tests of findings. Times are ms from the start of the application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.model.finding import Finding
from rechannel.profiling.spark.application import (
    Application,
    Batch,
    Execution,
    Executor,
    Job,
    Stage,
)
from rechannel.profiling.spark.rows import FAILURES, SparkTask, TaskRows
from rechannel.profiling.spark.sql_events import PlanMetric, PlanNode
from rechannel.profiling.spark.task_events import Input, Metrics, ShuffleRead, ShuffleWrite

START = 1_700_000_000_000


def task(
    stage: int, index: int, launch: int, finish: int, executor: str = "1", **more: Any
) -> dict[str, Any]:
    """A task as `application` takes it. more: failed (a name), attempt, killed, rows; bytes: read, written, result."""
    return {
        "stage": stage,
        "index": index,
        "launch": launch,
        "finish": finish,
        "executor": executor,
        **more,
    }


def rows(tasks: Sequence[Mapping[str, Any]], lost: Sequence[int] = ()) -> TaskRows:
    """Tasks; those with the numbers in `lost` lost their output."""
    found = TaskRows()
    for number, told in enumerate(tasks):
        failed = FAILURES.index(told.get("failed", ""))
        found.add(
            SparkTask(
                number=number,
                stage=told["stage"],
                index=told["index"],
                executor=told["executor"],
                launch=START + told["launch"],
                finish=START + told["finish"],
                getting=START + told["getting"] if "getting" in told else 0,
                metrics=Metrics(
                    run=told.get("run", told["finish"] - told["launch"]),
                    cpu=told.get("cpu", 0) * 1_000_000,
                    result=told.get("result", 0),
                    read=ShuffleRead(
                        rows=told.get("rows", 0),
                        local_bytes=told.get("read", 0),
                        fetch_wait=told.get("wait", 0),
                    ),
                    write=ShuffleWrite(
                        size=told.get("written", 0), time=told.get("writing", 0) * 1_000_000
                    ),
                    input=Input(size=told.get("input", 0)),
                ),
                good=not failed and not told.get("killed", False),
                killed=told.get("killed", False),
                failed=failed,
                attempt=told.get("attempt", 0),
            )
        )
    for number in lost:
        found.lost.add(number)
    found.close()
    return found


def job(number: int, start: int, end: int, **more: Any) -> Job:
    return Job(
        number=number,
        start=START + start,
        end=START + end,
        **{"site": f"count at etl.py:{number}", **more},
    )


def stage(number: int, start: int, end: int, tasks: int = 1, **more: Any) -> Stage:
    return Stage(
        number=number,
        submitted=START + start if end else 0,
        completed=START + end if end else 0,
        tasks=tasks,
        **{"name": f"stage {number}", **more},
    )


def execution(number: int, start: int, end: int, **more: Any) -> Execution:
    return Execution(
        number=number,
        start=START + start,
        end=START + end,
        **{"description": f"query {number}", **more},
    )


def executor(name: str, added: int, removed: int = 0, cores: int = 2, **more: Any) -> Executor:
    return Executor(
        name=name,
        host=f"host{name}",
        cores=cores,
        added=START + added,
        removed=START + removed if removed else 0,
        **more,
    )


def batch(number: int, start: int, end: int, rows: int = 100, **more: Any) -> Batch:
    return Batch(
        query="orders", number=number, start=START + start, end=START + end, rows=rows, **more
    )


def node(
    name: str, text: str = "", *children: PlanNode, metrics: Mapping[str, int] | None = None
) -> PlanNode:
    told = [PlanMetric(accumulator=at, name=of) for of, at in (metrics or {}).items()]
    return PlanNode(name=name, text=text or name, children=list(children), metrics=told)


def application(
    end: int,
    tasks: Sequence[Mapping[str, Any]] = (),
    *things: Job | Stage | Execution | Executor | Batch,
    lost: Sequence[int] = (),
    **more: Any,
) -> Application:
    """An application that lasts for so many ms, with one executor unless others are given."""
    executors = [each for each in things if isinstance(each, Executor)] or [executor("1", 500)]
    app = Application(
        name="made",
        start=START,
        end=START + end,
        ended=True,
        executors={each.name: each for each in executors},
        jobs={each.number: each for each in things if isinstance(each, Job)},
        stages={(each.number, each.attempt): each for each in things if isinstance(each, Stage)},
        executions={each.number: each for each in things if isinstance(each, Execution)},
        batches=[each for each in things if isinstance(each, Batch)],
        tasks=rows(tasks, lost),
    )
    return replace(app, **more)


def found(detect: Any, app: Application) -> dict[str, Finding]:
    """What a detector finds, by cause; no cause is found twice."""
    findings = list(detect(Case(app=app)))
    known = {each.cause: each for each in findings}
    assert len(known) == len(findings), [each.text for each in findings]
    return known
