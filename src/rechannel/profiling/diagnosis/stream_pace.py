"""Whether a stream waits between its batches: if it does, shorter batches gain capacity, and no time."""

from __future__ import annotations

from collections.abc import Sequence

from rechannel.profiling.diagnosis.case import Case, Family
from rechannel.profiling.spark.application import Application, Batch, Job

BUSY = 0.8
"""Share of a stream's time in which batches run, from which it does not wait for its trigger."""


def stream_of(app: Application, job: Job) -> str:
    """Return the name of the stream that a job belongs to, as batches have it; "" for none."""
    stream = app.streams.get(job.query)
    return job.query if stream is None else stream.name or job.query


def pace(batches: Sequence[Batch]) -> float:
    """Return the share of the time of consecutive batches in which one runs."""
    lasted = sum(batch.end - batch.start for batch in batches)
    return lasted / max(1, batches[-1].end - batches[0].start) if batches else 0.0


def waits(case: Case, family: Family) -> bool:
    """Return whether stages belong to a stream that waits between its batches."""
    if not case.streams(family):
        return False
    number = case.job_of(family.stages[0])
    name = "" if number is None else stream_of(case.app, case.app.jobs[number])
    mine = [batch for batch in case.app.batches if batch.query == name]
    return pace(sorted(mine, key=lambda each: each.start)) < BUSY
