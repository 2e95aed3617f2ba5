"""The dataflow that is changed while it runs: count and sum per key, of rows that are due by the clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import rechannel as rc
from benchmarks.clock_source import scattered
from benchmarks.harness import Parameters
from benchmarks.two_hosts import store
from rechannel import aggregates as agg
from rechannel.dataflow.streams.stream import Stream
from rechannel.model.routing import Routing, even_starts
from rechannel.operators.process.track_frame import KeyedFrame

OPERATOR = "totals"
SOURCE = "rows"
STATE = "count bigint, total bigint"
ENTRIES_KEPT = 1_000_000
"""Journal entries stay, because the time at which a timestep was committed is read from its entry."""
NO_ROWS = 1e-6
"""Rows per second of a stream in which none will ever be due."""


@dataclass(frozen=True)
class KeyedRows:
    """Row i has a key that is scattered evenly over ``0 <= key < keys``."""

    keys: int

    def __call__(self, start: int, stop: int) -> pa.RecordBatch:
        """The rows ``start <= row < stop``."""
        rows = np.arange(start, stop, dtype=np.int64)
        return pa.record_batch({"key": scattered(rows, self.keys), "value": rows % 1_000})


def add(frame: KeyedFrame) -> dict[str, Any]:
    """The states of all keys of a task after their rows of a timestep."""
    return {
        "count": frame.previous("count", 0) + frame.count(),
        "total": frame.previous("total", 0) + frame.sum("value"),
    }


def add_again(frame: KeyedFrame) -> dict[str, Any]:
    """What `add` does, as another version of it."""
    rows, values = frame.count(), frame.sum("value")
    return {
        "count": rows + frame.previous("count", 0),
        "total": values + frame.previous("total", 0),
    }


def flow(spark: Any, parameters: Parameters, *, new: bool = False) -> Stream:
    """The dataflow. rate: of the rows, None = as fast as they are taken. new: with the new logic."""
    rate = parameters["rate"]
    rows = rc.read(spark).generator(
        KeyedRows(parameters["keys"]),
        schema="key BIGINT, value BIGINT",
        rows_per_second=rate,
        per_timestep=parameters["rows"] if rate is None else None,
        partitions=2,
        name=SOURCE,
    )

    def initial() -> Any:
        return spark.range(0, parameters["keys"], 1, 16).selectExpr(
            "id AS key", "CAST(1 AS BIGINT) AS count", "id AS total"
        )

    keyed = rows.key_by("key")
    own: dict[str, Any] = {
        "name": OPERATOR,
        "tasks": first_tasks(parameters),
        "bins": parameters["bins"],
        "preload": initial,
    }
    if parameters["change"] == "logic":
        return keyed.track_batches(add_again if new else add, state=STATE, **own)
    return keyed.aggregate(count=agg.count(), total=agg.sum("value"), **own)


def start(spark: Any, parameters: Parameters, *, new: bool = False) -> rc.RunningJob:
    """Start the job on the state in ``scratch``; it throws its rows away."""
    settings = rc.Settings(
        tasks=2,
        snapshot_every=ENTRIES_KEPT,
        interval_ms=parameters["interval_ms"],
    )
    stream = flow(spark, parameters, new=new)
    return rc.Job("live", stream.write.noop(), state=store(parameters), settings=settings).start()


def journal(parameters: Parameters) -> Path:
    """Where the entries are."""
    return Path(parameters["scratch"]) / "state" / "journal"


def first_tasks(parameters: Parameters) -> int:
    """Tasks before any change."""
    return int(parameters["rescale"][0] if parameters["change"] == "rescale" else 4)


def first_routing(bins: int) -> Routing:
    """Host A (tasks 0 and 1) has five eighths of the bins, host B (tasks 2 and 3) three eighths.

    When a quarter has moved from A to B it is the other way round: the load is as uneven after the
    move as before it, so that neither flatters the other.
    """
    edges = [0, bins * 5 // 16, bins * 5 // 8, bins * 13 // 16, bins]
    owners = [task for task in range(4) for _ in range(edges[task + 1] - edges[task])]
    return Routing(starts=even_starts(bins), owners=tuple(owners), tasks=4)


def first_changes(parameters: Parameters) -> list[Any]:
    """What is set before the first row: which task owns what, and where it runs."""
    placed = first_places(parameters)
    if parameters["change"] != "move":
        return placed
    return [rc.changes.assign_workload(OPERATOR, first_routing(parameters["bins"])), *placed]


def first_places(parameters: Parameters) -> list[Any]:
    """On which host every task runs: half of them on each. They hold as long as these executors live."""
    tasks, hosts = first_tasks(parameters), parameters["hosts"]
    several = range(tasks) if hosts > 1 else ()  # one executor has them all
    return [rc.changes.place(OPERATOR, task, str(task * hosts // tasks)) for task in several]


def changes(parameters: Parameters) -> Sequence[Any]:
    """The changes that are measured; each is asked for when the one before is done."""
    if parameters["change"] == "logic":
        return [rc.changes.change_logic(OPERATOR, add_again)]
    if parameters["change"] == "rescale":
        return [rc.changes.rescale(OPERATOR, tasks) for tasks in parameters["rescale"][1:]]
    routing, count = first_routing(parameters["bins"]), parameters["bins"] // 8
    return [
        [rc.changes.move(OPERATOR, routing.bins_of(task)[-count:], task + 2) for task in (0, 1)]
    ]
