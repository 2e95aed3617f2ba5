"""Facts whose times lie far away from everything else: see `times.py`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rechannel.profiling.spark.facts import Facts


def times_of(facts: Facts) -> Iterator[int]:
    """Yield when jobs, executions of SQL and batches began and ended, Unix milliseconds."""
    for job in facts.jobs.values():
        yield from (job.start, job.end)
    for execution in facts.sql.known.values():
        yield from (execution.start, execution.end)
    for batch in facts.batches:
        yield from (batch.start, batch.end)


def others_of(facts: Facts) -> Iterator[int]:
    """Yield what else has a time in the facts; 0 is unknown."""
    for executor in facts.executors.values():
        yield from (executor.added, executor.removed, executor.excluded)
    for stage in facts.attempts.values():
        yield from (stage.submitted, stage.completed)
    for stream in facts.streams.values():
        yield from (stream.start, stream.end)


def keep(facts: Facts, first: int, last: int) -> dict[str, int]:
    """Drop jobs, executions of SQL and batches that do not begin within [first, last], Unix
    milliseconds, and batches that do not end within it. Other times are unknown if they lie outside.

    Returns how many of what were dropped.
    """

    def near(time: int) -> int:
        return time if first <= time <= last else 0

    def begun(time: int) -> bool:
        return not time or bool(near(time))

    jobs, executions, batches = len(facts.jobs), len(facts.sql.known), len(facts.batches)
    facts.jobs = {
        number: replace(job, end=near(job.end))
        for number, job in facts.jobs.items()
        if begun(job.start)
    }
    facts.sql.known = {
        number: replace(each, end=near(each.end))
        for number, each in facts.sql.known.items()
        if begun(each.start)
    }
    facts.batches = [each for each in facts.batches if near(each.start) and near(each.end)]
    facts.attempts = {
        number: replace(stage, submitted=near(stage.submitted), completed=near(stage.completed))
        for number, stage in facts.attempts.items()
    }
    facts.stages = {
        stage.number: facts.attempts.get((stage.number, stage.attempt), stage)
        for stage in facts.stages.values()
    }
    facts.executors = {
        name: replace(
            each, added=near(each.added), removed=near(each.removed), excluded=near(each.excluded)
        )
        for name, each in facts.executors.items()
    }
    facts.streams = {
        name: replace(each, start=near(each.start), end=near(each.end))
        for name, each in facts.streams.items()
    }
    facts.latest = min(facts.latest, last)
    return {
        "job": jobs - len(facts.jobs),
        "SQL execution": executions - len(facts.sql.known),
        "progress event": batches - len(facts.batches),
    }
