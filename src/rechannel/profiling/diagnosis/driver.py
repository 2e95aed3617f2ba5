"""Findings about the driver: its own code, planning, commits, listing of files, idling.

Gains are the time in which no task runs, beyond what is usual: that part of the critical path is
the driver's alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rechannel.profiling.diagnosis.broadcasts import building
from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.diagnosis.driver_time import DriverTime
from rechannel.profiling.diagnosis.executors import executors_late, start_up
from rechannel.profiling.diagnosis.plans import is_wide, metadata_ms, plan_size
from rechannel.profiling.diagnosis.results import collected, decodes
from rechannel.profiling.diagnosis.words import (
    counted,
    execution_of,
    job_of,
    percent,
    seconds,
)
from rechannel.profiling.model.finding import Certainty, Evidence, Finding, Place
from rechannel.profiling.spark.application import Application
from rechannel.profiling.spark.driver_time import DriverKind, DriverSpan

USUAL_FIRST = 20_000
"""ms before the first job that are usual: imports, the catalog, classes that are loaded."""
USUAL_LAST = 5_000
"""ms after the last job that are usual: the session is stopped."""
GAP = 1_000
"""ms between two jobs that are usual."""
SOON = 50
"""ms between the analysis of a plan and the start of its execution."""
USUAL_PLANNING = 500
"""ms of planning per execution that are usual."""

USUAL_COMMIT = 1_000
"""ms of commit per execution that are usual."""


def on_driver(case: Case) -> Iterator[Finding]:
    """Find what the driver spends time on while no task runs."""
    time = DriverTime.of(case.app)
    for rule in _RULES:
        yield from rule(time)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A stretch of the driver's time, and the part of it that is not usual, ms."""

    span: DriverSpan
    ms: float
    excess: float


def program(time: DriverTime) -> Iterator[Finding]:
    """Find code of the program that runs between jobs."""
    gaps = [gap for gap in _gaps(time) if gap.excess > 0]
    total = sum(gap.excess for gap in gaps)
    if not time.worth(total):
        return
    longest = max(gaps, key=lambda gap: gap.excess)
    span = longest.span
    stretches = (
        f"in one stretch {_where(time.app, span)}"
        if len(gaps) == 1
        else f"in {counted(len(gaps), 'stretch', 'stretches')}, the longest of "
        f"{seconds(longest.ms)} {_where(time.app, span)}"
    )
    yield time.finding(
        "driver-program",
        total,
        f"Executors wait {seconds(total)} ({percent(total / time.length)} of the run) for code of"
        f" the program that runs on the driver, {stretches}. No job and no SQL execution is open"
        " then.",
        "Look at what the program does there. Move work on rows into Spark (DataFrame operations,"
        " `mapInPandas`), run independent work in a thread while a job runs, or leave it out.",
        certainty=Certainty.CERTAIN,
        place=Place(job=span.next_job if span.job is None else span.job),
        evidence=(
            Evidence(name="time without a job", value=total / 1_000, unit="s"),
            Evidence(name="longest stretch", value=longest.ms / 1_000, unit="s"),
        ),
    )


def _gaps(time: DriverTime) -> Iterator[Gap]:
    """Yield the stretches in which the program's own code runs."""
    last = time.spans[-1] if time.spans else None
    for span, ms in time.of_kind(DriverKind.PROGRAM):
        if decodes(span, ms, time.results) or _analysed(time, span) is not None:
            continue
        if span.batch is not None:
            continue
        if span.job is None:
            usual = USUAL_FIRST
        elif span is last:
            usual = USUAL_LAST
        else:
            usual = 0 if ms >= GAP else ms
        yield Gap(span=span, ms=ms, excess=max(0.0, ms - usual))


def _where(app: Application, span: DriverSpan) -> str:
    before, after = job_of(app, span.job), job_of(app, span.next_job)
    if before and after:
        return f"between {before} and {after}"
    if after:
        return f"before {after}, the first"
    return f"after {before}, the last" if before else "without any job"


def _analysed(time: DriverTime, span: DriverSpan) -> int | None:
    """Return the execution with a large plan that begins right at the end of a stretch of the
    program's own code: the program has just built and analysed that plan. None if there is none.
    """
    starts = time.executions
    for start, number in starts[bisect_left(starts, (span.end, -1)) :]:
        if start - span.end > SOON:
            return None
        if is_wide(time.app.executions[number]):
            return number
    return None


def planning(time: DriverTime) -> Iterator[Finding]:
    """Find long planning of SQL."""
    app = time.app
    of = time.by_execution(DriverKind.PLANNING)
    for number, ms in of.items():
        of[number] = max(0.0, ms - min(metadata_ms(app.executions.get(number)), ms))
    for span, ms in time.of_kind(DriverKind.PROGRAM):
        number = _analysed(time, span)
        if number is not None:
            of[number] = of.get(number, 0.0) + ms
    excess = {
        number: ms - (USUAL_FIRST if number == min(of) else USUAL_PLANNING)
        for number, ms in of.items()
    }
    slow = {number: ms for number, ms in excess.items() if ms > 0}
    total = sum(slow.values())
    if not slow or not time.worth(total):
        return
    longest = max(slow, key=lambda number: slow[number])
    size = plan_size(app.executions.get(longest))
    many = "" if len(slow) == 1 else f", and so do {len(slow) - 1} more"
    yield time.finding(
        "planning",
        total,
        f"{execution_of(app, longest)[:1].upper()}{execution_of(app, longest)[1:]} takes"
        f" {seconds(of[longest])} to plan{many}: executors wait {seconds(total)}"
        f" ({percent(total / time.length)} of the run) more for that than is usual. Its plan has"
        f" {counted(size.nodes, 'node')} and at least {counted(size.expressions, 'expression')}.",
        "Make the plan smaller: add columns with one `select` instead of many `withColumn`, cut"
        " long chains of transformations with `localCheckpoint()` or by writing a table, and read"
        " fewer columns and partitions. Set `spark.sql.adaptive.enabled=false` if most of it lies"
        " between the jobs of the execution.",
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
    of = time.by_execution(DriverKind.COMMIT)
    slow = {number: ms - USUAL_COMMIT for number, ms in of.items() if ms > USUAL_COMMIT}
    total = sum(slow.values())
    if not slow or not time.worth(total):
        return
    longest = max(slow, key=lambda number: slow[number])
    yield time.finding(
        "commit",
        total,
        f"After their last task, {counted(len(slow), 'SQL execution')} that write need"
        f" {seconds(sum(of[number] for number in slow))} to commit,"
        f" {seconds(total)} ({percent(total / time.length)} of the run) more than is usual. The"
        f" slowest is {execution_of(app, longest)} with {seconds(of[longest])}.",
        "Write fewer and larger files (`repartition` or `coalesce` before the write, fewer"
        " partition values at a time). On an object store use a committer made for it"
        " (`spark.sql.sources.commitProtocolClass`), not one that renames files.",
        place=Place(execution=longest),
        evidence=(Evidence(name="slowest commit", value=of[longest] / 1_000, unit="s"),),
    )


def listing(time: DriverTime) -> Iterator[Finding]:
    """Find slow listing of files."""
    app = time.app
    spans = [span for span in time.spans if span.kind is DriverKind.LISTING]
    by_jobs = float(sum(span.end - span.start for span in spans))
    of = {
        number: min(float(metadata_ms(app.executions.get(number))), ms)
        for number, ms in time.by_execution(DriverKind.PLANNING).items()
    }
    of = {number: ms for number, ms in of.items() if ms >= GAP}
    total = by_jobs + sum(of.values())
    if not time.worth(total):
        return
    job = max(spans, key=lambda span: span.end - span.start).job if spans else None
    place = Place(job=job) if job is not None else Place(execution=max(of, key=lambda n: of[n]))
    where = job_of(app, job) or execution_of(app, place.execution)
    yield time.finding(
        "file-listing",
        total,
        f"Listing the files of tables takes {seconds(total)} ({percent(total / time.length)} of"
        f" the run), the longest in {where}; nothing else runs then.",
        "Keep fewer and larger files and fewer partitions, read a table of a catalog instead of a"
        " path, and name the partitions that are needed in the path or in a filter.",
        place=place,
        evidence=(Evidence(name="jobs that list files", value=len(spans)),),
    )


def idling(time: DriverTime) -> Iterator[Finding]:
    """Say that a session or a stream was idle; that is no fault and has no gain."""
    spans = time.of_kind(DriverKind.IDLE)
    total, whole = sum(ms for _, ms in spans), float(time.app.end - time.app.start)
    if total < max(LEAST_IDLE, IDLE * whole):
        return
    if time.app.batches:
        text = (
            f"The stream is idle for {seconds(total)}"
            f" ({percent(total / whole)} of the time) between batches: it keeps"
            " up with its input."
        )
        advice = "Nothing has to change. Fewer cores would do."
    else:
        text = (
            f"The session is idle for {seconds(total)}"
            f" ({percent(total / whole)} of the time): it waits for the person"
            " or the client that uses it. Gains refer to the rest of the time."
        )
        advice = (
            "Nothing has to change in the program. `spark.dynamicAllocation.enabled=true` gives"
            " executors back meanwhile."
        )
    yield Finding(
        cause="idle",
        text=text,
        advice=advice,
        gain=None,
        certainty=Certainty.LIKELY,
        evidence=(Evidence(name="idle", value=total / 1_000, unit="s"),),
    )


_RULES:
        yield from rule(time)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A stretch of the driver's time, and the part of it that is not usual, ms."""

    span: DriverSpan
    ms: float
    excess: float


def program(time: DriverTime) -> Iterator[Finding]:
    """Find code of the program that runs between jobs."""
    gaps = [gap for gap in _gaps(time) if gap.excess > 0]
    total = sum(gap.excess for gap in gaps)
    if not time.worth(total):
        return
    longest = max(gaps, key=lambda gap: gap.excess)
    span = longest.span
    stretches = (
        f"in one stretch {_where(time.app, span)}"
        if len(gaps) == 1
        else f"in {counted(len(gaps), 'stretch', 'stretches')}, the longest of "
        f"{seconds(longest.ms)} {_where(time.app, span)}"
    )
    yield time.finding(
        "driver-program",
        total,
        f"Executors wait {seconds(total)} ({percent(total / time.length)} of the run) for code of"
        f" the program that runs on the driver, {stretches}. No job and no SQL execution is open"
        " then.",
        "Look at what the program does there. Move work on rows into Spark (DataFrame operations,"
        " `mapInPandas`), run independent work in a thread while a job runs, or leave it out.",
        certainty=Certainty.CERTAIN,
        place=Place(job=span.next_job if span.job is None else span.job),
        evidence=(
            Evidence(name="time without a job", value=total / 1_000, unit="s"),
            Evidence(name="longest stretch", value=longest.ms / 1_000, unit="s"),
        ),
    )


def _gaps(time: DriverTime) -> Iterator[Gap]:
    """Yield the stretches in which the program's own code runs."""
    last = time.spans[-1] if time.spans else None
    for span, ms in time.of_kind(DriverKind.PROGRAM):
        if decodes(span, ms, time.results) or _analysed(time, span) is not None:
            continue
        if span.batch is not None:
            continue
        if span.job is None:
            usual = USUAL_FIRST
        elif span is last:
            usual = USUAL_LAST
        else:
            usual = 0 if ms >= GAP else ms
        yield Gap(span=span, ms=ms, excess=max(0.0, ms - usual))


def _where(app: Application, span: DriverSpan) -> str:
    before, after = job_of(app, span.job), job_of(app, span.next_job)
    if before and after:
        return f"between {before} and {after}"
    if after:
        return f"before {after}, the first"
    return f"after {before}, the last" if before else "without any job"


def _analysed(time: DriverTime, span: DriverSpan) -> int | None:
    """Return the execution with a large plan that begins right at the end of a stretch of the
    program's own code: the program has just built and analysed that plan. None if there is none.
    """
    starts = time.executions
    for start, number in starts[bisect_left(starts, (span.end, -1)) :]:
        if start - span.end > SOON:
            return None
        if is_wide(time.app.executions[number]):
            return number
    return None


def planning(time: DriverTime) -> Iterator[Finding]:
    """Find long planning of SQL."""
    app = time.app
    of = time.by_execution(DriverKind.PLANNING)
    for number, ms in of.items():
        of[number] = max(0.0, ms - min(metadata_ms(app.executions.get(number)), ms))
    for span, ms in time.of_kind(DriverKind.PROGRAM):
        number = _analysed(time, span)
        if number is not None:
            of[number] = of.get(number, 0.0) + ms
    excess = {
        number: ms - (USUAL_FIRST if number == min(of) else USUAL_PLANNING)
        for number, ms in of.items()
    }
    slow = {number: ms for number, ms in excess.items() if ms > 0}
    total = sum(slow.values())
    if not slow or not time.worth(total):
        return
    longest = max(slow, key=lambda number: slow[number])
    size = plan_size(app.executions.get(longest))
    many = "" if len(slow) == 1 else f", and so do {len(slow) - 1} more"
    yield time.finding(
        "planning",
        total,
        f"{execution_of(app, longest)[:1].upper()}{execution_of(app, longest)[1:]} takes"
        f" {seconds(of[longest])} to plan{many}: executors wait {seconds(total)}"
        f" ({percent(total / time.length)} of the run) more for that than is usual. Its plan has"
        f" {counted(size.nodes, 'node')} and at least {counted(size.expressions, 'expression')}.",
        "Make the plan smaller: add columns with one `select` instead of many `withColumn`, cut"
        " long chains of transformations with `localCheckpoint()` or by writing a table, and read"
        " fewer columns and partitions. Set `spark.sql.adaptive.enabled=false` if most of it lies"
        " between the jobs of the execution.",
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
    of = time.by_execution(DriverKind.COMMIT)
    slow = {number: ms - USUAL_COMMIT for number, ms in of.items() if ms > USUAL_COMMIT}
    total = sum(slow.values())
    if not slow or not time.worth(total):
        return
    longest = max(slow, key=lambda number: slow[number])
    yield time.finding(
        "commit",
        total,
        f"After their last task, {counted(len(slow), 'SQL execution')} that write need"
        f" {seconds(sum(of[number] for number in slow))} to commit,"
        f" {seconds(total)} ({percent(total / time.length)} of the run) more than is usual. The"
        f" slowest is {execution_of(app, longest)} with {seconds(of[longest])}.",
        "Write fewer and larger files (`repartition` or `coalesce` before the write, fewer"
        " partition values at a time). On an object store use a committer made for it"
        " (`spark.sql.sources.commitProtocolClass`), not one that renames files.",
        place=Place(execution=longest),
        evidence=(Evidence(name="slowest commit", value=of[longest] / 1_000, unit="s"),),
    )


def listing(time: DriverTime) -> Iterator[Finding]:
    """Find slow listing of files."""
    app = time.app
    spans = [span for span in time.spans if span.kind is DriverKind.LISTING]
    by_jobs = float(sum(span.end - span.start for span in spans))
    of = {
        number: min(float(metadata_ms(app.executions.get(number))), ms)
        for number, ms in time.by_execution(DriverKind.PLANNING).items()
    }
    of = {number: ms for number, ms in of.items() if ms >= GAP}
    total = by_jobs + sum(of.values())
    if not time.worth(total):
        return
    job = max(spans, key=lambda span: span.end - span.start).job if spans else None
    place = Place(job=job) if job is not None else Place(execution=max(of, key=lambda n: of[n]))
    where = job_of(app, job) or execution_of(app, place.execution)
    yield time.finding(
        "file-listing",
        total,
        f"Listing the files of tables takes {seconds(total)} ({percent(total / time.length)} of"
        f" the run), the longest in {where}; nothing else runs then.",
        "Keep fewer and larger files and fewer partitions, read a table of a catalog instead of a"
        " path, and name the partitions that are needed in the path or in a filter.",
        place=place,
        evidence=(Evidence(name="jobs that list files", value=len(spans)),),
    )


def idling(time: DriverTime) -> Iterator[Finding]:
    """Say that a session or a stream was idle; that is no fault and has no gain."""
    spans = time.of_kind(DriverKind.IDLE)
    total, whole = sum(ms for _, ms in spans), float(time.app.end - time.app.start)
    if total < max(LEAST_IDLE, IDLE * whole):
        return
    if time.app.batches:
        text = (
            f"The stream is idle for {seconds(total)}"
            f" ({percent(total / whole)} of the time) between batches: it keeps"
            " up with its input."
        )
        advice = "Nothing has to change. Fewer cores would do."
    else:
        text = (
            f"The session is idle for {seconds(total)}"
            f" ({percent(total / whole)} of the time): it waits for the person"
            " or the client that uses it. Gains refer to the rest of the time."
        )
        advice = (
            "Nothing has to change in the program. `spark.dynamicAllocation.enabled=true` gives"
            " executors back meanwhile."
        )
    yield Finding(
        cause="idle",
        text=text,
        advice=advice,
        gain=None,
        certainty=Certainty.LIKELY,
        evidence=(Evidence(name="idle", value=total / 1_000, unit="s"),),
    )


IDLE = 0.2
"""Share of the run from which idling is mentioned."""
LEAST_IDLE = 5_000
"""ms of idling from which it is mentioned."""

_RULES: tuple[Callable[[DriverTime], Iterable[Finding]], ...] = (
    start_up,
    executors_late,
    planning,
    building,
    collected,
    program,
    commit,
    listing,
    idling,
)
