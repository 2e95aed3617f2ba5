"""Rechannel's side of `control`: streams in which controllers send operations, by turns with the same stream alone."""

from __future__ import annotations

import time
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

import pyarrow as pa

import rechannel as rc
from benchmarks.harness import Measurement, Parameters
from benchmarks.nexmark.events import SCHEMAS, Events
from benchmarks.nexmark.query import Tables, query
from benchmarks.rechannel_side import session
from benchmarks.yahoo.events import SCHEMA, AdEvents
from benchmarks.yahoo.query import counts
from rechannel import aggregates as agg
from rechannel.control import OperatorHandler, TaskView

EACH = 0
"""Operations per second that stand for one per timestep."""

POLL_SECONDS = 0.25


class Rows(OperatorHandler):
    """What Chi's figure 8 asks every operator for: a number."""

    def on_complete(self, task: TaskView) -> int:
        """Rows received."""
        return task.rows_in

    def merge(self, one: int, other: int) -> int:
        """Their sum."""
        return one + other


class Probe(rc.control.Controller):
    """Sends operations at a rate, and notes how long each took from `on_begin` to `on_complete`."""

    def __init__(self, *, rate: int, blocking: bool) -> None:
        """rate: per second; EACH = one per timestep."""
        self.blocking = blocking
        self.trigger = (
            rc.control.every(timesteps=1) if rate == EACH else rc.control.every(seconds=1 / rate)
        )
        self.took_ms: list[float] = []
        self.timesteps: list[int] = []
        self.replies: list[int] = []
        self._began = 0.0
        self._came = 0

    def on_begin(self, control: rc.control.Control[Any]) -> rc.control.Operation:
        """Send a message to all tasks."""
        self._began, self._came = time.perf_counter(), 0
        return rc.control.operation(Rows(), blocking=self.blocking)

    def on_next(self, control: rc.control.Control[Any], reply: rc.control.TaskReply) -> None:
        """Count replies."""
        self._came += 1

    def on_complete(self, control: rc.control.Control[Any], outcome: rc.control.Outcome) -> None:
        """Note what it took."""
        if outcome.failed:
            raise RuntimeError(outcome.failures[0].error)
        self.took_ms.append(1e3 * (time.perf_counter() - self._began))
        self.timesteps.append(outcome.timestep)
        self.replies.append(self._came)


def name_of(rate: int, *, blocking: bool) -> str:
    """Of a probe, in figures."""
    return f"{'each' if rate == EACH else rate}-{'blocking' if blocking else 'free'}"


@dataclass
class Progress:
    """Durations of timesteps, ms, collected while a job runs."""

    job: rc.RunningJob
    last: int = 0
    numbers: list[int] = field(default_factory=list)
    """Of the timesteps that `during` has returned last."""

    def skip(self) -> None:
        """Forget what has been committed so far, and the timestep that runs."""
        self.last = self.job.status.timestep + 1

    def during(self, seconds: float) -> list[float]:
        """Wait; return the durations of the timesteps that were committed meanwhile."""
        found: list[float] = []
        self.numbers = []
        until = time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0:
            time.sleep(min(POLL_SECONDS, left))
            for one in self.job.recent_progress:
                if one.timestep > self.last:
                    found.append(one.duration_ms)
                    self.numbers.append(one.timestep)
                    self.last = one.timestep
        return found


def loads(parameters: Parameters) -> Measurement:
    """Durations of timesteps by load, probe and turn, with the probe and without it."""
    spark = session(parameters)
    probes = {
        name_of(rate, blocking=blocking): Probe(rate=rate, blocking=blocking)
        for rate in parameters["rates"]
        for blocking in (False, True)
    }
    settings = rc.Settings(
        tasks=parameters["tasks"], durability=rc.Durability(parameters["durability"])
    )
    job = rc.Job(
        "control",
        _stream(spark, parameters).write.noop(),
        state=Path(parameters["scratch"]) / "state",
        settings=settings,
        controllers=[rc.control.install(probe, name=name) for name, probe in probes.items()],
    ).start()
    out: dict[str, Any] = {"service_ms": 0.0, "turns": []}
    try:
        for name in probes:
            job.controllers[name].pause()
        progress = Progress(job)
        progress.during(parameters["warmup_seconds"])
        out["service_ms"] = median(progress.during(parameters["seconds"]))
        for load in parameters["loads"]:
            interval = round(out["service_ms"] * 100 / load)
            job.reconfigure(rc.changes.set_interval(interval)).wait(60)
            progress.during(parameters["seconds"] / 2)
            for _ in range(parameters["turns"]):
                for name, probe in probes.items():
                    out["turns"].append(_turn(job, progress, probe, name, load, parameters))
    finally:
        job.stop()
    return out


def _turn(
    job: rc.RunningJob,
    progress: Progress,
    probe: Probe,
    name: str,
    load: int,
    parameters: Parameters,
) -> dict[str, Any]:
    """The stream alone, then with a probe."""
    progress.skip()
    alone = progress.during(parameters["seconds"])
    probe.took_ms.clear()
    probe.timesteps.clear()
    job.controllers[name].resume()
    progress.skip()
    watched = progress.during(parameters["seconds"])
    job.controllers[name].pause()
    return {
        "load": load,
        "probe": name,
        "alone": alone,
        "controlled": watched,
        "added": added_ms(progress.numbers, watched, set(probe.timesteps)),
        "took_ms": list(probe.took_ms),
    }


def added_ms(numbers: Sequence[int], took_ms: Sequence[float], carrying: Set[int]) -> list[float]:
    """What each operation has added to its timestep: its duration less the mean of the two timesteps beside it.

    Only where none of these two carries an operation. A machine that slows down for seconds slows all three alike.
    """
    by_number = dict(zip(numbers, took_ms, strict=True))
    found = []
    for number in sorted(carrying & by_number.keys()):
        beside = {number - 1, number + 1}
        if beside <= by_number.keys() and not beside & carrying:
            found.append(by_number[number] - mean(by_number[n] for n in beside))
    return found


def _stream(spark: Any, parameters: Parameters) -> Any:
    """The query, as a timestep of a fixed number of rows after the other."""
    rows, partitions = parameters["rows"], parameters["tasks"]
    if parameters["query"] == "yahoo":
        events = AdEvents(
            start_ns=1_700_000_000 * 10**9, rate=parameters["event_rate"], partitions=partitions
        )
        lines = rc.read(spark).generator(
            events.batch, schema=SCHEMA, per_timestep=rows, partitions=partitions, name="events"
        )
        return counts(lines, campaigns=100, ads=10, seconds=10, tasks=parameters["tasks"])
    asked, events_of = query(parameters["query"]), Events(rate=parameters["event_rate"])
    streams = {
        kind: rc.read(spark)
        .generator(
            events_of.source(kind),
            schema=SCHEMAS[kind],
            per_timestep=rows,
            partitions=partitions,
            name=kind,
        )
        .event_time("dateTime")
        for kind in asked.reads
    }
    nobody: Any = None
    return asked.build(Tables(**{kind: streams.get(kind, nobody) for kind in SCHEMAS}))


def widths(parameters: Parameters) -> Measurement:
    """Milliseconds of timesteps with an operation and without, by the number of source tasks, in process."""
    return {
        str(width): _width(width, blocking=blocking, parameters=parameters)
        for blocking in (False,)
        for width in parameters["widths"]
    }


def _width(width: int, *, blocking: bool, parameters: Parameters) -> dict[str, Any]:
    probe = Probe(rate=EACH, blocking=blocking)
    rows = rc.read().generator(
        partial(_numbers),
        schema="k BIGINT",
        per_timestep=width,
        partitions=width,
        name="numbers",
    )
    flow = rows.key_by("k").aggregate(n=agg.count(), name="counts", tasks=parameters["consumers"])
    job = rc.Job(
        "width",
        flow.write.noop(),
        state=Path(parameters["scratch"]) / f"state-{width}",
        settings=rc.Settings(tasks=width, durability=rc.Durability.PROCESS),
        controllers=[rc.control.install(probe, name="probe")],
    ).start(in_process=rc.InProcess())
    alone: list[float] = []
    controlled: list[float] = []
    try:
        handle, progress = job.controllers["probe"], Progress(job)
        handle.pause()
        _timesteps(job, progress, 2)
        for _ in range(parameters["turns"]):
            handle.pause()
            progress.skip()
            alone += _timesteps(job, progress, parameters["timesteps"])
            handle.resume()
            progress.skip()
            controlled += _timesteps(job, progress, parameters["timesteps"])
    finally:
        job.stop()
    return {
        "alone": alone,
        "controlled": controlled,
        "replies": probe.replies,
        "operations": len(probe.took_ms),
    }


def _timesteps(job: rc.RunningJob, progress: Progress, count: int) -> list[float]:
    found: list[float] = []
    while len(found) < count:
        found += progress.during(POLL_SECONDS)
        if not job.is_active:
            job.await_termination()
    return found


def _numbers(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(range(start, stop), pa.int64())})
