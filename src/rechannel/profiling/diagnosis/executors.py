"""Findings about executors that come late: the start of the application, and jobs that wait."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rechannel.profiling.diagnosis.driver_time import DriverTime
from rechannel.profiling.diagnosis.replacements import replacements
from rechannel.profiling.diagnosis.words import duration, job_of
from rechannel.profiling.model.finding import Certainty, Evidence, Finding, Place
from rechannel.profiling.model.words import capitalised, counted, percent
from rechannel.profiling.spark.application import Application, Executor
from rechannel.profiling.spark.busy import worked
from rechannel.profiling.spark.driver import STARTING, WAITS

USUAL_START = 30_000
"""ms from the start of an application to its first executor that are usual."""
USUAL_WAIT = 10_000
"""ms that a job usually waits for the first executors, if they are requested at the start."""
LATE = 5_000
"""ms after the first job from which an executor is late."""
OCCUPIED = 0.8
"""Share of the cores' time in which tasks must have run while executors were missing: otherwise more
cores would not have been used."""

_ALLOCATION = "spark.dynamicAllocation"


def start_up(time: DriverTime) -> Iterator[Finding]:
    """Find a start that takes longer than usual."""
    total = sum(ms for _, ms in time.of_kind(STARTING))
    excess = total - USUAL_START
    if excess <= 0 or not time.worth(excess):
        return
    yield time.finding(
        "start-up",
        excess,
        f"The application waits {duration(total)} for its first executor,"
        f" {duration(excess)} ({percent(excess / time.length)} of the run) longer than usual.",
        "Look at the queue and the free resources of the cluster, and at the size of images and"
        " archives (`spark.archives`, `spark.jars`, `spark.kubernetes.container.image`) that hosts"
        " fetch; use one session for several jobs.",
        certainty=Certainty.CERTAIN,
        evidence=(Evidence(name="first executor", value=total / 1_000, unit="s"),),
    )


def executors_late(time: DriverTime) -> Iterator[Finding]:
    """Find jobs that wait for executors, or work with fewer of them than come later."""
    app = time.app
    waits = time.of_kind(WAITS)
    waited = sum(ms for _, ms in waits)
    if not app.dynamic:
        waited = max(0.0, waited - USUAL_WAIT)
    missing, late = _missing(time)
    total = waited + missing
    if not time.worth(total):
        return
    job = waits[0][0].job if waits else min(app.jobs)
    about = []
    if waited:
        about.append(
            f"{capitalised(job_of(app, job))} has no executor at first: jobs"
            f" wait {duration(sum(ms for _, ms in waits))} until one registers."
        )
    if late and missing:
        last = max(each.added for each in late)
        about.append(
            f"{counted(len(late), 'executor')} came late, the last one"
            f" {duration(last - _first_job(app))} after the first job began, while tasks waited for"
            " cores."
        )
    yield time.finding(
        "late-executors",
        total,
        f"Executors come late. {' '.join(about)} Executors that are there from the start would make"
        f" the run {duration(total)} ({percent(total / time.length)}) shorter.",
        _advice(dynamic=app.dynamic),
        certainty=Certainty.CERTAIN if not missing else Certainty.LIKELY,
        place=Place(job=job),
        evidence=(
            Evidence(name="jobs without any executor", value=waited / 1_000, unit="s"),
            Evidence(name="late executors", value=len(late)),
        ),
    )


def _advice(*, dynamic: bool) -> str:
    if dynamic:
        return (
            f"Raise `{_ALLOCATION}.initialExecutors` and `{_ALLOCATION}.minExecutors`, and lower"
            f" `{_ALLOCATION}.schedulerBacklogTimeout` and"
            f" `{_ALLOCATION}.sustainedSchedulerBacklogTimeout`; a longer"
            f" `{_ALLOCATION}.executorIdleTimeout` keeps executors between jobs."
        )
    return (
        "Look at the queue and the free resources of the cluster. Set"
        " `spark.scheduler.minRegisteredResourcesRatio` to begin only when executors are there;"
        " it costs no time if nothing can be done without them."
    )


def _first_job(app: Application) -> int:
    return min(job.start for job in app.jobs.values())


def _missing(time: DriverTime) -> tuple[float, list[Executor]]:
    """Return how much shorter the run would be if late executors had come with the first, ms, and
    these executors.

    While a share c/C of the cores is busy without a pause, that time would shrink to c/C of it.
    Executors that take the place of others are not late.
    """
    app = time.app
    known = [each for each in app.executors.values() if each.added]
    if not app.jobs or len(known) < 2:
        return 0.0, []
    begin = max(_first_job(app), min(each.added for each in known))
    replaced = replacements((each for each in known if each.removed), known)
    in_place = {each.name for each in replaced.values()}
    late = [each for each in known if each.added > begin + LATE and each.name not in in_place]
    early = [each for each in known if each.added <= begin + LATE]
    times = [begin, *sorted(each.added for each in late)]
    cores = np.cumsum(
        [sum(each.cores for each in early), *(e.cores for e in sorted(late, key=_added))]
    )
    blocks = app.tasks.close().each()
    starts, ends = np.array(times[:-1], dtype=np.float64), np.array(times[1:], dtype=np.float64)
    work = np.diff(worked(blocks, lambda rows: (rows["launch"], rows["finish"]), times))
    occupied = (work > 0) & (work >= OCCUPIED * time.capacity.within(starts, ends))
    saved = time.on_core.within(starts, ends) * (1 - cores[:-1] / cores[-1])
    return float(saved[occupied].sum()), late


def _added(executor: Executor) -> int:
    return executor.added
