"""What is advised for an application, in sentences, and its JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rechannel.profiling.model.words import counted
from rechannel.scaling.files.spark.advice import (
    JobsAdvice,
    LogAdvice,
    Origin,
    Predicted,
    QueryAdvice,
    StageCost,
)

CONTENDED = 0.5
"""Share of tasks' time in Java below which a sentence says so."""
_FROM: dict[Origin, str] = {
    "given": "as given",
    "measured": "as measured",
    "assumed": "assumed",
}


def as_record(made: LogAdvice) -> dict[str, Any]:
    """Return everything as JSON values."""
    return {"kind": "spark", **asdict(made), "sentences": list(sentences(made))}


def sentences(made: LogAdvice) -> Iterator[str]:
    """Yield what is advised, and why."""
    for query in made.queries:
        yield from query_sentences(query)
    if made.jobs is not None:
        yield from job_sentences(made.jobs)


def query_sentences(query: QueryAdvice) -> Iterator[str]:
    """Yield what a stream needs, and why."""
    now, advised = query.now, query.advised
    shuffles = any(each.kind == "shuffle" for each in query.stages)
    yield (
        f"{query.name}: for {query.rate:,.0f} rows per second ({_FROM[query.rate_from]}) in batches every"
        f" {_time(query.interval_ms)} ({_FROM[query.interval_from]}), {_change(now, advised, shuffles=shuffles)}."
    )
    yield f"A batch will take {_predicted(advised)}: {_keeps(advised, query)}."
    if (now.cores, now.partitions) != (advised.cores, advised.partitions):
        yield f"With what it had, it takes {_predicted(now)}: {_keeps(now, query)}."
    yield (
        f"Measured: {counted(query.batches, 'batch', 'batches')} after {query.left_out} of warm-up, the median of"
        f" {query.measured_rows:,.0f} rows in {_time(query.measured_ms)}; without a stage, the driver takes"
        f" {_time(query.driver_ms)} of it."
    )
    yield from map(_of_stage, query.stages)
    if query.hangs_on:
        yield (
            f"The interval hangs on {query.hangs_on}: its tasks received about as many rows each, so how much of their"
            " time is fixed is not known; a run with other partitions or another rate tells."
        )
    yield from _of_state(query)


def _of_state(query: QueryAdvice) -> Iterator[str]:
    if query.state_partitions is None or query.advised.partitions == query.state_partitions:
        return
    yield (
        f"The state has {counted(query.state_partitions, 'partition')}, and its checkpoint keeps that number: other"
        " shuffle partitions need a new checkpoint, so the state is built anew."
    )


def _change(now: Predicted, advised: Predicted, *, shuffles: bool) -> str:
    parts = []
    cores = counted(advised.cores, "core")
    if advised.executors:
        cores += f" ({counted(advised.executors, 'executor')})"
    parts.append(cores if advised.cores == now.cores else f"{cores} instead of {now.cores}")
    partitions = counted(advised.partitions, "shuffle partition")
    same = advised.partitions == now.partitions
    if shuffles:
        parts.append(partitions if same else f"{partitions} instead of {now.partitions}")
    kept = same and advised.cores == now.cores
    return f"{'keep' if kept else 'use'} {' and '.join(parts)}"


def _predicted(what: Predicted) -> str:
    return f"{_time(what.batch_ms)} ({_time(what.low_ms)} to {_time(what.high_ms)})"


def _keeps(what: Predicted, query: QueryAdvice) -> str:
    if query.interval_from == "assumed":
        room = "the pace is kept" if what.keeps else "slower than it was"
    elif what.keeps:
        room = f"within the {query.utilisation:.0%} that may be used"
    elif what.used <= 1:
        room = f"more than the {query.utilisation:.0%} that may be used"
    else:
        room = "it falls behind"
    return f"{what.used:.0%} of the interval, {room}; most of it is {what.binds}"


def _of_stage(stage: StageCost) -> str:
    text = (
        f"{stage.name}: {counted(stage.tasks, 'task')} of {_time(stage.fixed_ms)}"
        f" ({_time(stage.fixed_low_ms)} to {_time(stage.fixed_high_ms)}) and {1e3 * stage.row_ms:,.3g} µs for each of"
        f" {stage.rows:,.0f} rows"
    )
    if stage.busy < CONTENDED:
        text += (
            f"; their Java threads worked for {stage.busy:.0%} of that, and the rest is Python, files, waiting, or"
            " other programs on the machine"
        )
    return f"{text}."


def job_sentences(jobs: JobsAdvice) -> Iterator[str]:
    """Yield what batch jobs need, and why."""
    now, enough = jobs.now, jobs.advised
    executors = f" ({counted(enough.executors, 'executor')})" if enough.executors else ""
    yield (
        f"{counted(enough.cores, 'core is', 'cores are')} enough{executors}: {_seconds(enough.seconds)}, and with any"
        f" number at least {_seconds(jobs.least_seconds)}."
    )
    yield (
        f"With {counted(now.cores, 'core')} it took {_seconds(now.seconds)}, and tasks ran for {jobs.busy:.0%} of their"
        " time."
    )


def _seconds(seconds: float) -> str:
    return _time(1e3 * seconds)


def _time(ms: float) -> str:
    if ms < 10:
        return f"{ms:.1f} ms"
    return f"{ms:,.0f} ms" if ms < 1_000 else f"{ms / 1e3:,.1f} s"
