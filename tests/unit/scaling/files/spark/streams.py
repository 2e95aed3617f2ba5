"""Streams whose tasks cost exactly what they are said to, scheduled on cores one by one."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from rechannel.profiling.spark.application import Application, Job, Stream
from tests.unit.profiling.diagnosis.made import (
    START,
    application,
    batch,
    executor,
    job,
    stage,
    task,
)

DRIVER_MS = 300
READ_MS, COUNT_MS = (20, 0.05), (50, 0.4)
"""Of a task, and of a row: reading, and counting."""


def scheduled(times: Sequence[float], cores: int, begin: int) -> list[tuple[int, int]]:
    """When tasks run: each on the first free core, ms."""
    free, found = [begin] * cores, []
    for ms in times:
        start = heapq.heappop(free)
        found.append((start, start + round(ms)))
        heapq.heappush(free, start + round(ms))
    return found


def shares(rows: int, tasks: int, turn: int) -> list[int]:
    """Rows of tasks: a little uneven, another way in each batch."""
    weights = [10 + (7 * index + 3 * turn) % 5 for index in range(tasks)]
    found = [rows * each // sum(weights) for each in weights]
    return [*found[:-1], rows - sum(found[:-1])] if tasks > 1 else [rows]


def even(rows: int, tasks: int, turn: int) -> list[int]:
    """The same number of rows for all tasks."""
    del turn
    return [rows // tasks] * tasks


def length(rows: int, cores: int, partitions: int, sources: int = 2, turn: int = 0) -> int:
    """How long a batch takes, ms."""
    at = 0
    for tasks, (fixed, each) in ((sources, READ_MS), (partitions, COUNT_MS)):
        times = [fixed + each * n for n in shares(rows, tasks, turn)]
        at = max(end for _, end in scheduled(times, cores, at))
    return at + DRIVER_MS


def counts(
    *,
    cores: int = 2,
    partitions: int = 4,
    sources: int = 2,
    rate: int = 1_000,
    every: int = 4_000,
    batches: int = 20,
    rows: Callable[[int], int] | None = None,
    shared: Callable[[int, int, int], Sequence[int]] = shares,
    waits: Callable[[int], int] = lambda _: 0,
    query: str = "orders",
    **more: Any,
) -> Application:
    """A stream that reads and counts. rows: of batch n, in place of what came since the one before. waits: what task n
    takes besides its work in Java, ms.
    """
    things: list[Any] = [executor("driver", 0, cores=cores)]
    ran: list[dict[str, Any]] = []
    at, came = 1_000, every
    for number in range(batches):
        arrived = rows(number) if rows else rate * came // 1_000
        begin = now = at + DRIVER_MS // 2
        for step, (tasks, (fixed, each)) in enumerate(((sources, READ_MS), (partitions, COUNT_MS))):
            received = shared(arrived, tasks, number)
            works = [round(fixed + each * n) for n in received]
            spans = scheduled([ms + waits(len(ran) + i) for i, ms in enumerate(works)], cores, now)
            place = 2 * number + step
            for index, ((start, end), n) in enumerate(zip(spans, received, strict=True)):
                ran.append(task(place, index, start, end, "driver", rows=n, cpu=works[index]))
            over = max(end for _, end in spans)
            nodes = ("Exchange", "StateStoreSave") if step else ("Scan", "Exchange")
            parents = (place - 1,) if step else ()
            things.append(stage(place, now, over, tasks, nodes=nodes, parents=parents))
            now = over
        end = now + DRIVER_MS - DRIVER_MS // 2
        things.append(ran_job(number, begin, now))
        fields: dict[str, Any] = {"rows": arrived, "state_rows": 100, "interval": every}
        things.append(batch(number, at, end, **{**fields, **more}))
        following = max(end, at + every) if every else end
        came, at = following - at, following
    streams = {"id": Stream(query="id", name=query, start=START)}
    return application(at, ran, *things, streams=streams)


def ran_job(number: int, start: int, end: int) -> Job:
    """The job of a batch."""
    return job(
        number, start, end, batch=number, query="orders", stages=(2 * number, 2 * number + 1)
    )
