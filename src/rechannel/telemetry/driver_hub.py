"""Opens the telemetry of one driver."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rechannel.telemetry.events import JobStarted
from rechannel.telemetry.hub import Hub
from rechannel.version import __version__


def open_hub(
    name: str,
    *,
    spark: Any,
    root: Path | None,
    clock: Callable[[], float],
    timestep: int,
    tasks: Mapping[str, int],
    backlog: int,
) -> Hub:
    """Open the telemetry of a job.

    spark: the session; None without Spark. root: of the state directory; None = nothing is written. timestep: the next
    one. tasks: by operator. backlog: timesteps that may wait for sinks.
    """
    complete = None
    if spark is not None and root is not None:
        from rechannel.telemetry.spark_tasks import open_spark_tasks

        found = open_spark_tasks(spark)
        complete = None if found is None else found.complete
    versions = {"rechannel": __version__, "python": platform.python_version()}
    started = JobStarted(
        job=name,
        at_ms=int(clock()),
        engine="in-process" if spark is None else "spark",
        timestep=timestep,
        tasks=dict(tasks),
        versions=versions if spark is None else {**versions, "spark": spark.version},
        backlog=backlog,
    )
    directory = None if root is None else root / "telemetry"
    return Hub(started, directory=directory, complete=complete, clock=clock)
