"""NEXMark on Flink: a query of its SQL over Parquet files, in one job on a cluster with as many slots as cores.

Every slot reads a file of its own per kind of event, in order: the rows that the other side's tasks read, batch after
batch. Flink has no batches: the time of one is derived from how many events the sources have read.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from benchmarks.harness import Parameters
from benchmarks.measurements import BatchMeasurement
from benchmarks.nexmark.events import EVENTS, PER_EPOCH
from benchmarks.nexmark.query import query
from benchmarks.peers.flink.cluster import Cluster, cluster, heap_settings, submitted
from benchmarks.peers.flink.environment import PARQUET, archive, home, python
from benchmarks.peers.flink.queries import statements
from benchmarks.processor import processor_time
from benchmarks.variant import report

VERSION = "2.3.0"
POLL_SECONDS = 0.2
LATE = "numLateRecordsDropped"

SETTINGS = {
    # Those of the public suite, with state on the heap, which is faster than its files.
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
    "execution.checkpointing.interval": "10s",
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled": "false",
    "state.backend.type": "hashmap",
    "pipeline.object-reuse": "true",
}


def run(parameters: Parameters) -> BatchMeasurement:
    """Run a query to the end of its files.

    A batch lasts until as many events have been read as are before the next one, the last one until everything is out.
    """
    scratch, where = Path(parameters["scratch"]), home(VERSION)
    with processor_time() as watched, cluster(where, scratch, cluster_settings(parameters)) as made:
        job = submit(made, where, parameters)
        told, seen, late = watch(made, job, total(parameters))
        begin, end = task_times(made, job, told)
        report(f"ended after {told['duration'] / 1e3:.0f} s")
        watched.sample()
    if late:
        raise RuntimeError(
            f"{late} rows came when their windows were gone: the result is not whole"
        )
    at = boundaries(seen, parameters["batches"], begin=begin, end=end)
    return {
        "seconds": [(b - a) / 1e3 for a, b in pairwise(at)],
        "rows": [total(parameters) // parameters["batches"]] * parameters["batches"],
        "processor": [watched.between(a * 1e6, b * 1e6) for a, b in pairwise(at)],
    }


def total(parameters: Parameters) -> int:
    """Events of the kinds that the query reads."""
    per_epoch = sum(PER_EPOCH[kind] for kind in query(parameters["query"]).reads)
    epochs: int = parameters["events"] // EVENTS * parameters["batches"]
    return epochs * per_epoch


def cluster_settings(parameters: Parameters) -> dict[str, str]:
    """Of the cluster, with figures that are fresh."""
    return {
        **heap_settings(parameters),
        "metrics.fetcher.update-interval": f"{POLL_SECONDS * 1e3:.0f}ms",
        "web.refresh-interval": f"{POLL_SECONDS * 1e3:.0f}ms",
        **SETTINGS,
    }


def submit(made: Cluster, where: Path, parameters: Parameters) -> str:
    """The id of the job, which is under way."""
    given = {
        "settings": {
            **made.settings,
            **SETTINGS,
            "parallelism.default": str(parameters["cores"]),
            "pipeline.jars": archive(PARQUET).as_uri(),
        },
        "statements": statements(parameters["query"], Path(parameters["by_slot"])),
    }
    script = Path(__file__).with_name("sql.py")
    scratch = Path(parameters["scratch"])
    return submitted(where, scratch, python=python(), script=script, given=given)


def watch(made: Cluster, job: str, events: int) -> tuple[Any, list[tuple[float, int]], int]:
    """Ask until the job has finished: its last answer, (ms since 1970, events read by then), and how many were late.

    Raises RuntimeError, with Flink's reason, for a job that fails.
    """
    seen: list[tuple[float, int]] = []
    late = 0
    while True:
        told = made.ask(f"/jobs/{job}")
        read = sum(v["metrics"]["read-records"] for v in told["vertices"] if is_source(v))
        seen.append((time.time() * 1e3, read))
        report(f"{read} of {events} events")
        if told["state"] == "FINISHED":
            return told, seen, late
        if told["state"] in ("FAILED", "CANCELED"):
            raise RuntimeError(f"{job}: {made.ask(f'/jobs/{job}/exceptions')}")
        late = max(late, late_rows(made, job, told))
        time.sleep(POLL_SECONDS)


def is_source(vertex: Any) -> bool:
    """Whether a vertex of a job reads files."""
    return str(vertex["name"]).startswith("Source:")


def late_rows(made: Cluster, job: str, told: Any) -> int:
    """Rows that the windows of a running job have dropped until now."""
    dropped = 0
    for vertex in told["vertices"]:
        path = f"/jobs/{job}/vertices/{vertex['id']}/subtasks/metrics"
        names = [metric["id"] for metric in made.ask(path) if metric["id"].endswith(LATE)]
        if names:
            values = made.ask(f"{path}?get={quote(','.join(names))}&agg=sum")
            dropped += sum(int(value["sum"]) for value in values)
    return dropped


def task_times(made: Cluster, job: str, told: Any) -> tuple[float, float]:
    """When the first task began to run, and when the last one ended, ms since 1970."""
    times = [
        subtask["timestamps"]
        for vertex in told["vertices"]
        for subtask in made.ask(f"/jobs/{job}/vertices/{vertex['id']}/subtasktimes")["subtasks"]
    ]
    return min(each["RUNNING"] for each in times), max(each["FINISHED"] for each in times)


def boundaries(
    seen: Sequence[tuple[float, int]], batches: int, *, begin: float, end: float
) -> list[float]:
    """When each of `batches` equal parts of the events began, and the end of the last one.

    seen: (time, events read until then), in order; between two of them events are read evenly. All events have been
    read by the last one.
    """
    first: dict[int, float] = {0: begin}
    for at, read in seen:
        first.setdefault(read, min(max(at, begin), end))
    counts = np.array(sorted(first))
    parts = np.arange(batches) * (counts[-1] / batches)
    return [*np.interp(parts, counts, [first[count] for count in counts]).tolist(), end]
