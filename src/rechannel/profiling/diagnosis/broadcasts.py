"""Findings about broadcast joins: building a large table on the driver."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from rechannel.profiling.diagnosis.driver_time import LARGE, DriverTime
from rechannel.profiling.diagnosis.plans import THRESHOLD, Broadcast, broadcasts
from rechannel.profiling.diagnosis.words import duration, execution_of, short
from rechannel.profiling.model.finding import Evidence, Finding, Place
from rechannel.profiling.model.words import counted, percent, size
from rechannel.profiling.spark.application import Application, Job
from rechannel.profiling.spark.driver import BROADCAST, SCHEDULING
from rechannel.profiling.spark.rows import TASK_ROW, leaving
from rechannel.profiling.spark.stage_tasks import tasks_of

_KEYS = re.compile(r"Join \[([^\]]+)\]")
"""Matches the columns of a join's first side, as a plan has them."""
NO_TASKS = np.empty(0, dtype=TASK_ROW)
USUAL = 300
"""ms of the driver per execution that broadcasts usually take."""


def building(time: DriverTime) -> Iterator[Finding]:
    """Find joins whose broadcast side keeps the driver busy while executors wait.

    Silent: in batches of a stream; if broadcasts take no longer than usual.
    """
    app = time.app
    of = time.by_execution(BROADCAST)
    for number, ms in _collecting(time).items():
        of[number] = of.get(number, 0.0) + ms
    slow = {number: ms - USUAL for number, ms in of.items() if ms > USUAL}
    total = sum(slow.values())
    if not slow or not time.worth(total):
        return
    longest = max(slow, key=lambda number: slow[number])
    made = next(iter(broadcasts(app.executions.get(longest))), None)
    yield time.finding(
        "broadcast-building",
        total,
        f"Broadcasting one side of a join takes {duration(total)} ({percent(total / time.length)} of"
        f" the run), most of it in {execution_of(app, longest)}: tasks wait until the driver has"
        f" their rows, and executors wait while it builds and sends the table.{_about(made)}",
        f"Drop the hint `broadcast`, or set `{THRESHOLD}`"
        f"{_now(app.settings.get(THRESHOLD, ''))} below the size of that side, so that"
        " Spark shuffles both sides instead; or broadcast the other side, or fewer columns and"
        " rows of this one.",
        place=Place(execution=longest, operator="" if made is None else made.join[:100]),
        evidence=(
            Evidence(name="time of the driver", value=of[longest] / 1_000, unit="s"),
            *(
                ()
                if made is None
                else (
                    Evidence(name="size of the side", value=made.size, unit="B"),
                    Evidence(name="rows of the side", value=made.rows, unit="rows"),
                )
            ),
        ),
    )


def _collecting(time: DriverTime) -> dict[int, float]:
    """Return the ms that jobs spend on bringing one side to the driver, by execution.

    While no task is on a core, the driver fetches what is left. While tasks are, the time counts in
    which they wait rather than compute, if they send more than they read: for memory and for the
    driver that takes their results.
    """
    found: dict[int, float] = {}
    for span, alone, fetching in time.between_batches():
        job = None if span.job is None else time.app.jobs.get(span.job)
        if job is None or job.execution is None or not job.broadcast:
            continue
        if span.kind == SCHEDULING:
            sending = (span.end - span.start - alone) * _waiting(time.app, job)
            found[job.execution] = found.get(job.execution, 0.0) + fetching + sending
    return found


def _waiting(app: Application, job: Job) -> float:
    """Return the share of their time for which the tasks of a broadcast side wait; 0 if they send
    less than they read, or if the log has no CPU time.
    """
    rows = tasks_of(app, job.stages[-1], 0) if job.stages else NO_TASKS
    sent, read = int(rows["result"].sum()), int(rows["in_bytes"].sum() + rows["read_bytes"].sum())
    lasted, cpu = float((leaving(rows) - rows["launch"]).sum()), float(rows["cpu"].sum())
    if sent < max(LARGE, read) or not cpu or not lasted:
        return 0.0
    return max(0.0, 1 - cpu / lasted)


def _about(made: Broadcast | None) -> str:
    if made is None or not made.size:
        return ""
    return (
        f" The broadcast side{_of(made.join)} has {counted(made.rows, 'row')} and {size(made.size)};"
        f" collecting, building and sending it took {duration(made.ms)}."
    )


def _of(join: str) -> str:
    """Return which join it is: by the columns of its first side, or as the plan has it."""
    if not join:
        return ""
    keys = _KEYS.search(join)
    if keys is None:
        return f" of {short(join)}"
    return f" of the join on {re.sub(r'#[0-9]+L?', '', keys[1])}"


def _now(value: str) -> str:
    return f" (now {value})" if value else ""
