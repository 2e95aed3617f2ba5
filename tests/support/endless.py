"""A job whose input never ends, on the real clock: reconfigurations of it are open for a while."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.job import InProcess
from rechannel.running import RunningJob


def events(start: int, stop: int) -> pa.RecordBatch:
    """Rows as a function of their number."""
    return pa.record_batch({"user": [f"u{n % 50}" for n in range(start, stop)]})


def start(directory: Path) -> RunningJob:
    """A timestep every 20 ms; the operator `counts` has 64 bins at 2 tasks."""
    rows = rc.read().generator(
        events, schema="user STRING", per_timestep=50, rows_per_second=2500, name="events"
    )
    counts = rows.key_by("user").aggregate(n=agg.count(), name="counts", tasks=2)
    settings = rc.Settings(durability=rc.Durability.PROCESS, bins=64, interval_ms=20)
    return rc.Job("endless", counts, state=directory, settings=settings).start(
        in_process=InProcess()
    )
