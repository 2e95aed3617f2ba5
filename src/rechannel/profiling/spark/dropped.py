"""Ends that a log does not have, although they happened: Spark drops events if its listeners are too slow.

- A task whose stage was completed ended by then.
- A job of an application that ended was over with the last of its stages, if all that ran are completed.
- An execution of SQL was over with the last of its jobs, if another one began later that is not a part of it. Without
  that rule a server would collect the results of one query for the rest of its days.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from rechannel.profiling.spark.application import Execution, Job, Stage


def completed(attempts: Iterable[Stage]) -> dict[tuple[int, int], int]:
    """Return when attempts of stages were completed, Unix milliseconds, by number and attempt."""
    return {(each.number, each.attempt): each.completed for each in attempts if each.completed}


def ended_jobs(jobs: Mapping[int, Job], stages: Mapping[int, Stage]) -> dict[int, Job]:
    """Return the jobs of an application that ended. stages: the latest attempt of each."""
    return {
        number: job if job.end else replace(job, end=_end(job, stages))
        for number, job in jobs.items()
    }


def ended_executions(
    executions: Mapping[int, Execution], jobs: Iterable[Job]
) -> dict[int, Execution]:
    """Return executions of SQL with their ends. jobs: all of the application."""
    over = {number: each.start for number, each in executions.items()}
    running = set()
    for job in jobs:
        for number in {job.execution, job.root}:
            if number is not None and number in over:
                over[number] = max(over[number], job.end)
                if not job.end:
                    running.add(number)
    newest = max((each.start for each in executions.values() if each.root is None), default=0)
    return {
        number: each
        if each.end or number in running or over[number] >= newest
        else replace(each, end=over[number])
        for number, each in executions.items()
    }


def _end(job: Job, stages: Mapping[int, Stage]) -> int:
    """Return when a job ended; 0 if that is not known."""
    known = (stages[number] for number in job.stages if number in stages)
    ends = [each.completed for each in known if each.submitted >= job.start]
    return max(ends) if ends and all(ends) else 0
