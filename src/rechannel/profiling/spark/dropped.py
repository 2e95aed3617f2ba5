"""Ends that a log does not have, although they happened: Spark drops events if its listeners are too slow.

- A task whose stage was completed ended by then.
- A job of an application that ended was over with the last of its stages, if all that ran are completed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from rechannel.profiling.spark.application import Job, Stage


def completed(attempts: Iterable[Stage]) -> dict[tuple[int, int], int]:
    """Return when attempts of stages were completed, Unix milliseconds, by number and attempt."""
    return {(each.number, each.attempt): each.completed for each in attempts if each.completed}


def ended_jobs(jobs: Mapping[int, Job], stages: Mapping[int, Stage]) -> dict[int, Job]:
    """Return the jobs of an application that ended. stages: the latest attempt of each."""
    return {
        number: job if job.end else replace(job, end=_end(job, stages))
        for number, job in jobs.items()
    }


def _end(job: Job, stages: Mapping[int, Stage]) -> int:
    """Return when a job ended; 0 if that is not known."""
    known = (stages[number] for number in job.stages if number in stages)
    ends = [each.completed for each in known if each.submitted >= job.start]
    return max(ends) if ends and all(ends) else 0
