"""What ran in an application, and what waited for what, as arrays that a replay reads. Times are milliseconds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Durations = npt.NDArray[np.float32]

WAITED, LATE = 1, 2
"""Flags of tasks: something waited for its end; it is a retry or a copy, in `Schedule.late`."""


class Schedule(NamedTuple):
    """What ran, and what waited for what.

    Stages are in order of their job and number, jobs in order of their group: the rows of group g
    in a table of jobs are those from `jobs[g]` to `jobs[g + 1]`.
    """

    jobs: Ints
    """First job of every group, and the number of jobs."""
    stages: Ints
    """First stage of every job, and the number of stages."""
    job: Ints
    """Job of every stage."""
    first: Ints
    """First task of every stage, an index into `durations`."""
    counts: Ints
    """Number of tasks of every stage."""
    durations: Durations
    """Of tasks, those of a stage in the order of their launches."""
    flags: npt.NDArray[np.uint8]
    """`WAITED` and `LATE`, by task."""
    latency: Floats
    """From the end of the last parent or the start of the job, by stage."""
    child: Ints
    """First row in `children` of every stage, and their number."""
    children: Ints
    parents: Ints
    """Number of parents in the group, by stage."""
    after: Ints
    """The job that a job waits for; -1 if there is none."""
    delay: Floats
    """Of a job, from the end of the one that it waits for, or from the start of the group."""
    tail: Floats
    """From the end of the last stage to the end of the job, by job."""
    late: Ints
    """First row in `late_tasks` of every stage, and their number."""
    late_tasks: Ints
    """Retries and copies of a stage, and what each waits for: a task, or -1 for the start of the
    stage. Sorted by the latter. Shape (late, 2).
    """
    late_delays: Floats
    step: Ints
    """First row in `steps` of every group, and their number."""
    steps: Floats
    """Times from the start of the group, and how many cores come or go. Shape (steps, 2)."""


class Variant(NamedTuple):
    """What is different in a replay."""

    place: Ints
    """Where the tasks of a stage begin in `durations`; -1 for stages with the tasks that they had."""
    counts: Ints
    """Number of tasks of every stage with tasks in `durations`."""
    durations: Durations
    cores: float
    """Factor on the number of cores; infinity if no task ever waits for one."""


def unchanged(schedule: Schedule) -> Variant:
    """Return the variant in which everything is what it was."""
    none = np.zeros(len(schedule.first), dtype=np.int64)
    return Variant(
        place=none - 1,
        counts=none,
        durations=np.empty(0, dtype=np.float32),
        cores=1.0,
    )
