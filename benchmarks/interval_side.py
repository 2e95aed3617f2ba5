"""Rechannel's side of `batch-interval`: a keyed count over rows whose rate changes in steps."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import rechannel as rc
from benchmarks.batch_interval import ends_at, source_options
from benchmarks.harness import Measurement, Parameters
from benchmarks.rechannel_side import session
from benchmarks.stepped_source import SteppedSource
from benchmarks.variant import report
from rechannel import aggregates as agg

POLL_SECONDS = 0.5


def auto(parameters: Parameters) -> Measurement:
    """With `BatchInterval`, from no interval on."""
    goal = {name: parameters[name] for name in ("share", "latency_ms")}
    return _run(parameters, 0, [rc.control.library.BatchInterval(**goal)])


def fixed(parameters: Parameters) -> Measurement:
    """With the same interval throughout."""
    return _run(parameters, parameters["interval_ms"], [])


def _run(parameters: Parameters, interval: int, controllers: list[Any]) -> Measurement:
    spark = session(parameters)
    start_ns = time.time_ns()
    options = source_options(parameters, start_ns)
    rows = rc.read(spark).python(SteppedSource, options=options)
    counts = rows.key_by("key").aggregate(count=agg.count(), name="counts")
    settings = rc.Settings(
        tasks=parameters["tasks"],
        interval_ms=interval,
        durability=rc.Durability(parameters["durability"]),
    )
    job = rc.Job(
        "interval",
        counts.write.noop(),
        state=Path(parameters["scratch"]) / "state",
        settings=settings,
        controllers=controllers,
    ).start()
    seen: dict[int, Any] = {}
    until = ends_at(parameters, start_ns)
    while time.time_ns() < until:
        if job.await_termination(POLL_SECONDS):
            raise RuntimeError("the job ended before its input did")
        seen.update({p.timestep: p for p in job.recent_progress})
        report(f"timestep {job.status.timestep}, interval {job.configuration.interval_ms} ms")
    found = [re.search(r"interval_ms=(\d+)", one.change) for one in job.history()]
    changes = [
        [one.first_timestep, int(match[1])]
        for one, match in zip(job.history(), found, strict=True)
        if match and one.first_timestep is not None
    ]
    job.stop()
    return {
        "start_ns": start_ns,
        "first_interval": interval,
        "changes": changes,
        "timesteps": [
            [p.timestep, p.started_ms, p.committed_ms, p.duration_ms, *_offsets(p)]
            for _, p in sorted(seen.items())
            if p.rows_in
        ],
    }


def _offsets(progress: Any) -> tuple[int, int]:
    (source,) = progress.sources.values()
    return source["start"].get("rows", 0), source["end"]["rows"]
