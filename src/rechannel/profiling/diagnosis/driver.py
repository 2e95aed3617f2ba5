"""Findings about the driver: its own code, planning, commits, listing of files, idling.

Gains are the time in which no task runs, beyond what is usual: that part of the critical path is
the driver's alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rechannel.profiling.diagnosis.broadcasts import building
from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.diagnosis.driver_spans import DriverSpan
from rechannel.profiling.diagnosis.driver_sql import analysed, commit, listing, planning
from rechannel.profiling.diagnosis.driver_time import DriverTime
from rechannel.profiling.diagnosis.executors import executors_late, start_up
from rechannel.profiling.diagnosis.results import collected, decodes
from rechannel.profiling.diagnosis.streams import on_streams
from rechannel.profiling.diagnosis.words import duration, job_of
from rechannel.profiling.model.finding import Certainty, Evidence, Finding, Place
from rechannel.profiling.model.words import counted, percent
from rechannel.profiling.spark.application import Application
from rechannel.profiling.spark.driver import IDLE, PROGRAM, attended

USUAL_FIRST = 30_000
"""ms before the first job that are usual: imports, the catalog, classes that are loaded."""
USUAL_LAST = 5_000
"""ms after the last job that are usual: the session is stopped."""
GAP = 1_000
"""ms between two jobs that are usual."""
IDLING = 0.2
"""Share of the run from which idling is mentioned."""
LEAST_IDLE = 5_000
"""ms of idling from which it is mentioned."""


def on_driver(case: Case) -> Iterator[Finding]:
    """Find what the driver spends time on while no task runs."""
    time = DriverTime.of(case)
    for rule in _RULES:
        yield from rule(time)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A stretch of the driver's time, and the part of it that is not usual, ms."""

    span: DriverSpan
    ms: float
    excess: float


def program(time: DriverTime) -> Iterator[Finding]:
    """Find code of the program that runs between jobs; in a session that is its user."""
    app = time.app
    if time.spans and not (app.jobs or app.executions or app.batches):
        yield _without_work(time)
    if not app.jobs or attended(app):
        return
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
        f"{duration(longest.ms)} {_where(time.app, span)}"
    )
    yield time.finding(
        "driver-program",
        total,
        f"Executors wait {duration(total)} ({percent(total / time.length)} of the run) for code of"
        f" the program that runs on the driver, {stretches}. Meanwhile no job and no SQL"
        " execution is running.",
        "Look at what the program does there. Move work on rows into Spark (DataFrame operations,"
        " `mapInPandas`), run independent work in a thread while a job runs, or leave it out.",
        certainty=Certainty.CERTAIN,
        place=Place(job=span.next_job if span.job is None else span.job),
        evidence=(
            Evidence(name="time without a job", value=total / 1_000, unit="s"),
            Evidence(name="longest stretch", value=longest.ms / 1_000, unit="s"),
        ),
    )


def _without_work(time: DriverTime) -> Finding:
    """Return that an application did nothing that could be made faster."""
    return Finding(
        cause="driver-program",
        text=(
            "The log has no job and no SQL execution: nothing ran on executors in its"
            f" {duration(time.length)}."
        ),
        advice=(
            "Profile a run that reads or computes something. If the application was still running,"
            " do it again when it has ended."
        ),
        gain=None,
        certainty=Certainty.CERTAIN,
        share=1.0,
    )


def _gaps(time: DriverTime) -> Iterator[Gap]:
    """Yield the stretches in which the program's own code runs."""
    last = time.spans[-1] if time.spans else None
    for span, ms in time.of_kind(PROGRAM):
        if decodes(span, ms, time.results) or analysed(time, span) is not None:
            continue
        if span.batch is not None:
            continue
        if span.job is None:
            usual: float = USUAL_FIRST
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


def idling(time: DriverTime) -> Iterator[Finding]:
    """Say that a session or a stream was idle; that is no fault and has no gain."""
    spans = time.of_kind(IDLE)
    total = sum(ms for _, ms in spans)
    whole = float(sum(span.end - span.start for span in time.spans))
    if total < max(LEAST_IDLE, IDLING * whole):
        return
    if time.app.batches:
        text = (
            f"The stream is idle for {duration(total)}"
            f" ({percent(total / whole)} of the time) between batches: it keeps"
            " up with its input."
        )
        advice = "Nothing has to change. Fewer cores would do."
    else:
        text = (
            f"The session is idle for {duration(total)}"
            f" ({percent(total / whole)} of the time): it waits for the person"
            " or the client that uses it. Gains refer to the rest of the time."
        )
        advice = "Nothing has to change in the program."
        if not (time.app.local or time.app.dynamic):
            advice += " `spark.dynamicAllocation.enabled=true` gives executors back meanwhile."
    yield Finding(
        cause="idle",
        text=text,
        advice=advice,
        gain=None,
        certainty=Certainty.LIKELY,
        evidence=(Evidence(name="idle", value=total / 1_000, unit="s"),),
        share=total / whole,
    )


_RULES: tuple[Callable[[DriverTime], Iterable[Finding]], ...] = (
    start_up,
    executors_late,
    planning,
    building,
    collected,
    program,
    commit,
    listing,
    on_streams,
    idling,
)
