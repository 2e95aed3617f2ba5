"""Findings about SQL on the driver: planning, commits of files that were written, listing of files."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from rechannel.profiling.diagnosis.driver_spans import DriverSpan
from rechannel.profiling.diagnosis.driver_time import DriverTime
from rechannel.profiling.diagnosis.plans import is_wide, metadata_ms, plan_size
from rechannel.profiling.diagnosis.words import duration, execution_of, job_of
from rechannel.profiling.model.finding import Evidence, Finding, Place
from rechannel.profiling.model.words import capitalised, counted, percent
from rechannel.profiling.spark.driver import COMMIT, LISTING, PLANNING, PROGRAM

SOON = 50
"""ms between the analysis of a plan and the start of its execution."""
LONG_PLANNING = 500
"""ms of planning from which that of an execution is long."""
USUAL_PLANNING = 200
"""ms of planning per execution that are usual."""
USUAL_WIDE = 3_000
"""ms that are usual for the first execution if its plan is large."""
USUAL_COMMIT = 1_000
"""ms of commit per execution that are usual."""
USUAL_FIRST = 30_000
"""ms that are usual for the first execution otherwise: classes are loaded and compiled."""
SMALL = 5
"""Nodes of a plan that cannot be made smaller."""
LISTED = 1_000
"""ms of listing by the driver that are worth mentioning, per execution."""

_SMALLER = (
    "Make the plan smaller: add columns with one `select` instead of many `withColumn`, cut long"
    " chains of transformations with `localCheckpoint()` or by writing a table, and read fewer"
    " columns and partitions. Set `spark.sql.adaptive.enabled=false` if most of it lies between the"
    " jobs of the execution."
)


def analysed(time: DriverTime, span: DriverSpan) -> int | None:
    """Return the execution with a large plan that begins right at the end of a stretch of the
    program's own code: the program has just built and analysed that plan. None if there is none.
    """
    starts = time.executions if span.job is not None else ()
    for place in range(bisect_left(starts, (span.end, -1)), len(starts)):
        start, number = starts[place]
        if start - span.end > SOON:
            return None
        if is_wide(time.app.executions[number]):
            return number
    return None


def planning(time: DriverTime) -> Iterator[Finding]:
    """Find long planning of SQL."""
    app = time.app
    of = time.by_execution(PLANNING)
    for number, ms in of.items():
        of[number] = max(0.0, ms - min(metadata_ms(app.executions.get(number)), ms))
    for span, ms in time.of_kind(PROGRAM):
        built = analysed(time, span)
        if built is not None:
            of[built] = of.get(built, 0.0) + ms
    excess = {number: ms - USUAL_PLANNING for number, ms in of.items() if ms > LONG_PLANNING}
    begun = [(job.start, job.execution) for job in app.jobs.values() if job.execution is not None]
    first = min(begun, default=(0, -1))[1]
    if first in excess:
        # Later ones tell what is not the compilation of classes.
        others = [ms for number, ms in excess.items() if number != first]
        wide = is_wide(app.executions.get(first))
        alone = of[first] - (USUAL_WIDE if wide else USUAL_FIRST)
        excess[first] = max(alone, min(excess[first], float(np.median(others or [0.0]))))
    slow = {number: ms for number, ms in excess.items() if ms > 0}
    total = sum(slow.values())
    if not slow or not time.worth(total):
        return
    longest = max(slow, key=lambda number: slow[number])
    size = plan_size(app.executions.get(longest))
    advice = _SMALLER
    if size.nodes <= SMALL and not is_wide(app.executions.get(longest)):
        advice = (
            "Its plan is small, so look at what the driver waited for: the catalog or the metastore,"
            " the listing of files, or the first use of classes in a new session."
        )
    many = "" if len(slow) == 1 else f", and {counted(len(slow) - 1, 'other')} take long, too"
    yield time.finding(
        "planning",
        total,
        f"{capitalised(execution_of(app, longest))} takes"
        f" {duration(of[longest])} to plan{many}: executors wait {duration(total)}"
        f" ({percent(total / time.length)} of the run) longer for plans than usual. Its plan has"
        f" {counted(size.nodes, 'node')} and at least {counted(size.expressions, 'expression')}.",
        advice,
        place=Place(execution=longest),
        evidence=(
            Evidence(name="planning", value=of[longest] / 1_000, unit="s"),
            Evidence(name="nodes of the plan", value=size.nodes),
            Evidence(name="expressions of the plan", value=size.expressions),
        ),
    )


def commit(time: DriverTime) -> Iterator[Finding]:
    """Find slow commits of written files."""
    app = time.app
    of = time.by_execution(COMMIT)
    slow = {number: ms - USUAL_COMMIT for number, ms in of.items() if ms > USUAL_COMMIT}
    total = sum(slow.values())
    if not slow or not time.worth(total):
        return
    longest = max(slow, key=lambda number: slow[number])
    yield time.finding(
        "commit",
        total,
        f"After their last task, writes of {counted(len(slow), 'SQL execution')} need"
        f" {duration(sum(of[number] for number in slow))} to commit,"
        f" {duration(total)} ({percent(total / time.length)} of the run) more than usual. The"
        f" slowest is {execution_of(app, longest)} with {duration(of[longest])}.",
        "Write fewer and larger files (`repartition` or `coalesce` before the write, fewer"
        " partition values at a time). On an object store use a committer made for it"
        " (`spark.sql.sources.commitProtocolClass`), not one that renames files.",
        place=Place(execution=longest),
        evidence=(Evidence(name="slowest commit", value=of[longest] / 1_000, unit="s"),),
    )


def listing(time: DriverTime) -> Iterator[Finding]:
    """Find slow listing of files. Silent: in batches of a stream."""
    app = time.app
    spans = [span for span, *_ in time.between_batches() if span.kind == LISTING]
    by_jobs = float(sum(span.end - span.start for span in spans))
    of = {
        number: min(float(metadata_ms(app.executions.get(number))), ms)
        for number, ms in time.by_execution(PLANNING).items()
    }
    of = {number: ms for number, ms in of.items() if ms >= LISTED}
    total = by_jobs + sum(of.values())
    if not time.worth(total):
        return
    job = max(spans, key=lambda span: span.end - span.start).job if spans else None
    place = Place(job=job) if job is not None else Place(execution=max(of, key=lambda n: of[n]))
    where = job_of(app, job) or execution_of(app, place.execution)
    yield time.finding(
        "file-listing",
        total,
        f"Listing the files of tables takes {duration(total)} ({percent(total / time.length)} of"
        f" the run), most of it in {where}; meanwhile nothing else runs.",
        "Keep fewer and larger files and fewer partitions, read a table of a catalog instead of a"
        " path, and name the partitions that are needed in the path or in a filter.",
        place=place,
        evidence=(Evidence(name="jobs that list files", value=len(spans)),),
    )
