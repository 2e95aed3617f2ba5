"""Rechannel's side of the Yahoo streaming benchmark: an ordinary program against the public API."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import rechannel as rc
from benchmarks.harness import Parameters
from benchmarks.rechannel_side import ENTRIES_KEPT, commits, session
from benchmarks.yahoo.events import AdEvents, AdSource
from benchmarks.yahoo.figures import WindowMeasurement
from benchmarks.yahoo.query import counts
from benchmarks.yahoo.store import Store
from benchmarks.yahoo.trial import Batches, measure

SOURCE = "events"


def run(parameters: Parameters) -> WindowMeasurement:
    """See `benchmarks.yahoo.trial.measure`."""
    return measure(Rechannel(spark=session(parameters), parameters=parameters), parameters)


@dataclass(frozen=True, kw_only=True)
class Rechannel:
    """Starts the query as a job."""

    spark: Any
    parameters: Parameters

    def start(self, events: AdEvents, directory: Path, out: Path) -> RunningCounts:
        """As fast as possible, or a timestep every ``interval_ms``."""
        asked = self.parameters
        options = {name: int(value) for name, value in asdict(events).items()}
        lines = rc.read(self.spark).python(AdSource, options=options, name=SOURCE)
        found = counts(
            lines,
            campaigns=asked["campaigns"],
            ads=asked["ads"],
            seconds=asked["window_seconds"],
            delay_ms=asked["delay_ms"],
            tasks=asked["tasks"],
        )
        settings = rc.Settings(
            tasks=asked["cores"],
            durability=rc.Durability(asked["durability"]),
            interval_ms=asked["interval_ms"],
            publish_backlog=asked["publish_backlog"],
            snapshot_every=ENTRIES_KEPT,
        )
        flow = found.write.for_each_batch(Store(str(out)), name="store")
        job = rc.Job("yahoo", flow, state=directory / "state", settings=settings).start()
        return RunningCounts(job=job, directory=directory)


@dataclass(frozen=True, kw_only=True)
class RunningCounts:
    """The job. Rows count as read when they are committed."""

    job: rc.RunningJob
    directory: Path

    def rows(self) -> int:
        """See `benchmarks.yahoo.trial.Running`."""
        if self.job.await_termination(0):
            raise RuntimeError("the job ended before it had read all events")
        return int(self.job.committed_offset(SOURCE).get("rows", 0))

    def stop(self) -> Batches:
        """Publishes what is committed, and ends."""
        told = self.job.recent_progress
        self.job.stop()
        made = commits({"scratch": str(self.directory)}, SOURCE)
        names = sorted({name for one in told for name in one.phases})
        return Batches(
            commits=dict(zip(count(1), made)),
            phases={name: [one.phases.get(name, 0.0) for one in told] for name in names},
        )
