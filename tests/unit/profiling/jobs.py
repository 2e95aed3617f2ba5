"""Telemetry of jobs, made up event by event, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from rechannel.profiling.job.log import JobLog
from rechannel.profiling.job.trace import JobTrace, job_trace
from rechannel.profiling.model.trace import Trace
from rechannel.profiling.reading import profile_trace
from rechannel.telemetry.events import (
    Event,
    JobStarted,
    JobStopped,
    Note,
    OperatorFinished,
    SinkPublished,
    TimestepCommitted,
    TimestepStarted,
)
from rechannel.telemetry.task_finished import Sent, SparkMetrics, TaskFinished

START = 1_700_000_000_000
MS = 1_000_000


def began(at: int = 0, **more: Any) -> JobStarted:
    versions = {"rechannel": "9"}
    return JobStarted(job="j", at_ms=START + at, engine="spark", versions=versions, **more)


def started(at: int, number: int = 1) -> TimestepStarted:
    return TimestepStarted(timestep=number, now_ms=0, at_ms=START + at)


def committed(
    at: int, plan: int = 2, run: int = 100, commit: int = 4, release: int = 1, number: int = 1
) -> TimestepCommitted:
    """at: when it began."""
    phases = {"plan": plan, "run": run, "commit": commit, "release": release}
    took = plan + run + commit
    return TimestepCommitted(
        timestep=number, at_ms=START + at + took, duration_ms=took, phases=phases
    )


def task(
    operator: str,
    index: int,
    begin: int,
    ms: Mapping[str, Any],
    *,
    launch: int | None = None,
    finish: int = 0,
    number: int = 1,
    to: Sequence[str] = (),
    **more: Any,
) -> TaskFinished:
    """begin: of its function, which lasts as long as its activities. launch, finish: as Spark measured."""
    spark = None
    if launch is not None:
        again, shuffle = more.pop("again", 0), more.pop("shuffle", 0)
        spark = SparkMetrics(
            stage=0,
            partition=index,
            attempt=again,
            executor="1",
            host="h",
            launch_ms=START + launch,
            finish_ms=START + finish,
            shuffle_write_ms=shuffle,
        )
    sent = tuple(Sent(operator=name, input=0, offered=1, rows=1, keys=1, bytes=1) for name in to)
    last = START + begin + more.pop("lasted", sum(ms.values()))
    return TaskFinished(
        timestep=number,
        operator=operator,
        task=index,
        attempt="a",
        host="h",
        started_ms=START + begin,
        finished_ms=last,
        ms=ms,
        sent=sent,
        spark=spark,
        **more,
    )


def published(at: int, took: int, number: int = 1) -> SinkPublished:
    return SinkPublished(timestep=number, sink="out", at_ms=START + at, duration_ms=took)


def small() -> list[Event]:
    """One timestep on Spark: a front of two tasks, and two tasks with state, of which the second has most rows."""
    front = {"wait": 5, "process": 10, "send": 5}
    return [
        began(),
        started(10),
        OperatorFinished(timestep=1, operator="rows", at_ms=START + 43),
        task("rows", 0, 20, front, launch=15, finish=43, to=["counts"], shuffle=2),
        task("rows", 1, 18, front, launch=15, finish=40, to=["counts"], lasted=21),
        task("counts", 0, 50, {"wait": 1, "process": 9}, launch=45, finish=62, bins="x"),
        task("counts", 1, 50, {"wait": 1, "lookup": 4, "process": 55}, launch=45, finish=111, bins="x"),
        committed(10),
        published(130, 10),
        Note(at_ms=START, topic="t", text="is nothing to a profile"),
        JobStopped(job="j", at_ms=START + 150),
    ]  # fmt: skip


def made(events: Iterable[Event]) -> JobTrace:
    log = JobLog()
    for event in events:
        log.see(event)
    log.close()
    return job_trace(log)


def spans(trace: Trace, worker: str) -> list[tuple[str, float, float]]:
    """(kind, from, to) of a worker, ms since the start, but for its waiting all the time."""
    did, names = trace.activities, trace.names
    rows = [
        (
            names.kinds[did.kind[i]],
            (did.start[i] - START * MS) / MS,
            (did.end[i] - START * MS) / MS,
        )
        for i in range(len(did))
        if names.workers[did.worker[i]] == worker
    ]
    if worker != "driver":
        rows.remove(max(rows, key=lambda row: row[2] - row[1]))
    return sorted(rows, key=lambda row: row[1])


def messages(trace: Trace) -> list[tuple[str, str, str, float, float]]:
    """(from, to, kind, sent, received), ms since the start."""
    went, names = trace.messages, trace.names
    return [
        (
            names.workers[went.source[i]],
            names.workers[went.target[i]],
            names.kinds[went.kind[i]],
            (went.sent[i] - START * MS) / MS,
            (went.received[i] - START * MS) / MS,
        )
        for i in range(len(went))
    ]


def by_worker(trace: Trace, window: int = 10**9) -> dict[str, float]:
    """CP of every worker; that of all edges of a window is 1."""
    found = profile_trace(trace, window=window)
    sums = found.cells.group_by("window").agg(pl.col("critical").sum()).collect()
    assert sums["critical"].to_list() == pytest.approx([1.0] * len(found.windows))
    return dict(found.by_worker().select("worker", "critical").iter_rows())
