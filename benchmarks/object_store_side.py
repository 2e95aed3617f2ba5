"""A job whose state is on the local disk, or in a bucket: how long its timesteps take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import rechannel as rc
from benchmarks.clock_source import scattered
from benchmarks.harness import Measurement, Parameters
from benchmarks.rechannel_side import session
from benchmarks.variant import report
from rechannel import aggregates as agg

POLL_SECONDS = 0.05


class Rows:
    """Row i has a key that is scattered evenly over ``0 <= key < keys``."""

    def __init__(self, keys: int) -> None:
        self.keys = keys

    def __call__(self, start: int, stop: int) -> pa.RecordBatch:
        """The rows ``start <= row < stop``."""
        rows = np.arange(start, stop, dtype=np.int64)
        return pa.record_batch({"key": scattered(rows, self.keys), "value": rows % 1_000})


def run(parameters: Parameters) -> Measurement:
    """Count and sum per key, either by the clock (``rate``) or as fast as possible (``rows`` per timestep)."""
    spark = session(parameters)
    by_the_clock: dict[str, Any] = {
        "rows_per_second": parameters["rate"],
        "per_timestep": parameters["rows"],
    }
    rows = rc.read(spark).generator(
        Rows(parameters["keys"]),
        schema="key BIGINT, value BIGINT",
        partitions=parameters["cores"],
        name="rows",
        **by_the_clock,
    )
    counted = rows.key_by("key").aggregate(
        count=agg.count(), total=agg.sum("value"), name="totals", tasks=parameters["tasks"]
    )
    scratch = Path(parameters["scratch"])
    settings = rc.Settings(
        tasks=parameters["cores"],
        durability=rc.Durability(parameters["durability"]),
        in_flight=parameters["in_flight"],
        cache=str(scratch / "cache") if parameters["bucket"] else None,
    )
    folder = scratch.parent.name.replace(" ", "-").replace(",", "")
    state = f"{parameters['bucket']}/{folder}" if parameters["bucket"] else scratch / "state"
    job = rc.Job("benchmark", counted.write.noop(), state=state, settings=settings).start()
    first, last = parameters["warmup"], parameters["warmup"] + parameters["timesteps"]
    took: dict[int, float] = {}
    phases: dict[int, dict[str, float]] = {}
    while (done := job.status.timestep or 0) < last:
        if job.await_termination(POLL_SECONDS):
            raise RuntimeError("the job ended by itself")
        for progress in job.recent_progress:
            took[progress.timestep] = progress.duration_ms
            phases[progress.timestep] = dict(progress.phases)
        report(f"{done} of {last} timesteps")
    job.stop()
    kept = [timestep for timestep in sorted(took) if first < timestep <= last]
    names = sorted({name for timestep in kept for name in phases[timestep]})
    return {
        "ms": [took[timestep] for timestep in kept],
        "timesteps": done,
        "phases": {name: [phases[t].get(name, 0.0) for t in kept] for name in names},
    }
