"""Findings about broadcast joins: building a large table on the driver."""

from __future__ import annotations

from collections.abc import Iterator

from rechannel.profiling.diagnosis.driver_time import DriverTime
from rechannel.profiling.diagnosis.plans import Broadcast, broadcasts
from rechannel.profiling.diagnosis.words import counted, execution_of, percent, seconds, size
from rechannel.profiling.model.finding import Evidence, Finding, Place
from rechannel.profiling.spark.driver_time import DriverKind

THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
USUAL = 300
"""ms of the driver per execution that broadcasts usually take."""


def building(time: DriverTime) -> Iterator[Finding]:
    """Find joins whose broadcast side keeps the driver busy while executors wait."""
    app = time.app
    of = time.by_execution(DriverKind.BROADCAST)
    for span, ms in zip(time.spans, time.fetching, strict=True):
        job = None if span.job is None else app.jobs.get(span.job)
        if job is None or job.execution is None or not job.broadcast:
            continue
        if span.kind is DriverKind.SCHEDULING:
            of[job.execution] = of.get(job.execution, 0.0) + float(ms)
    slow = {number: ms - USUAL for number, ms in of.items() if ms > USUAL}
    total = sum(slow.values())
    if not slow or not time.worth(total):
        return
    longest = max(slow, key=lambda number: slow[number])
    made = next(iter(broadcasts(app.executions.get(longest))), None)
    yield time.finding(
        "broadcast-building",
        total,
        f"The driver spends {seconds(total)} ({percent(total / time.length)} of the run) on"
        f" broadcasting one side of a join while executors wait, most of it in"
        f" {execution_of(app, longest)}.{_about(made)}",
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


def _about(made: Broadcast | None) -> str:
    if made is None or not made.size:
        return ""
    join = f" of {made.join[:100]}" if made.join else ""
    return (
        f" The side{join} has {counted(made.rows, 'row')} and {size(made.size)}; to collect, build"
        f" and send it took {seconds(made.ms)}."
    )


def _now(value: str) -> str:
    return f" (now {value})" if value else ""
