"""Advice from event logs of Spark, as what a page shows. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rechannel.profiling.model.words import counted
from rechannel.scaling.files.spark.advice import (
    JobsAdvice,
    LogAdvice,
    Predicted,
    QueryAdvice,
)
from rechannel.scaling.files.spark.words import as_record, query_sentences
from rechannel.scaling.needs.words import short
from rechannel.scaling.report.parts import (
    Band,
    Card,
    Chart,
    Level,
    Line,
    Mark,
    Page,
    Section,
    Table,
)

MOST_ROWS = 200
SAME = 0.2
"""By which share rows of a batch may differ to be compared."""


def logs_page(made: LogAdvice) -> Page:
    """Return what the page of advice from an event log shows."""
    sections = [_query(number, query) for number, query in enumerate(made.queries)]
    if made.jobs is not None:
        sections.append(_jobs(made.jobs))
    where = "in the driver" if not made.executors else f"of {counted(made.executors, 'executor')}"
    return Page(
        title=f"How much does {made.title} need?",
        about=f"It had {counted(made.cores, 'core')} {where}.",
        sections=tuple(sections),
        notes=made.notes,
        record=as_record(made),
    )


# A stream ------------------------------------------------------------------------------------------


def _query(number: int, query: QueryAdvice) -> Section:
    return Section(
        id=f"query-{number}",
        title=f"Stream {query.name}",
        hint=(
            f"{query.batches} batches; {short(query.rate)} rows per second ({query.rate_from}), a batch"
            f" every {short(query.interval_ms)} ms ({query.interval_from}), of which"
            f" {query.utilisation:.0%} may be used."
        ),
        parts=(_batches(query), _card(query), _predictions(query), _stages(query)),
    )


def _card(query: QueryAdvice) -> Card:
    now, best = query.now, query.advised
    same = (now.cores, now.partitions) == (best.cores, best.partitions)
    facts = [
        f"a batch took {short(query.measured_ms)} ms, the median",
        f"{best.used:.0%} of the interval",
        f"binds: {best.binds}",
        f"the driver alone: {short(query.driver_ms)} ms",
    ]
    if query.hangs_on:
        facts.append(f"most hangs on what {query.hangs_on} costs")
    if query.state_partitions is not None:
        partitions = counted(query.state_partitions, "partition")
        facts.append(f"state in {partitions}, fixed by its checkpoint")
    change, then, *_ = query_sentences(query)
    return Card(
        title="All is well" if same else "Something is to be changed",
        text=f"{change} {then}",
        facts=(*facts, *query.notes),
        weighty=not same,
    )


def _all(query: QueryAdvice) -> list[Predicted]:
    """Return the best partitions for each number of cores, ascending."""
    known = {each.cores: each for each in (*query.others, query.advised)}
    return [known[cores] for cores in sorted(known)]


def _batches(query: QueryAdvice) -> Chart:
    each = _all(query)
    room = query.utilisation * query.interval_ms
    now = Mark(name="now, measured", at=(query.now.cores, query.measured_ms))
    rows = query.rate * query.interval_ms / 1e3
    if abs(query.measured_rows - rows) > SAME * rows:
        now = Mark(name="now, at this load", at=(query.now.cores, query.now.batch_ms))
    highest = max(now.at[1], *(one.high_ms for one in each))
    return Chart(
        title="A batch, on other numbers of cores",
        x="cores",
        y="ms",
        lines=(Line(name="batch", points=tuple((one.cores, one.batch_ms) for one in each)),),
        bands=(
            Band(
                name="what the measurements leave open",
                points=tuple((one.cores, one.low_ms, one.high_ms) for one in each),
            ),
        ),
        marks=(
            now,
            Mark(name="advised", at=(query.advised.cores, query.advised.batch_ms), advised=True),
        ),
        levels=(Level(name="may be used", y=room),) if room <= 4 * highest else (),
    )


def _predictions(query: QueryAdvice) -> Table:
    rows = tuple(
        (
            str(one.cores),
            str(one.executors or "driver"),
            str(one.partitions),
            short(one.batch_ms),
            f"{short(one.low_ms)} to {short(one.high_ms)}",
            f"{one.used:.0%}",
            "yes" if one.keeps else "no",
        )
        for one in _all(query)[:MOST_ROWS]
    )
    heads = ("cores", "executors", "partitions", "batch, ms", "interval, ms", "used", "keeps")
    return Table(heads=heads, rows=rows)


def _stages(query: QueryAdvice) -> Table:
    rows = tuple(
        (
            stage.name,
            stage.kind,
            str(stage.tasks),
            short(stage.rows),
            f"{short(stage.fixed_ms)} ({short(stage.fixed_low_ms)} to {short(stage.fixed_high_ms)})",
            short(1e3 * stage.row_ms),
            f"{stage.heaviest:.2f}",
            str(stage.samples),
        )
        for stage in query.stages[:MOST_ROWS]
    )
    heads = ("stage", "tasks by", "tasks", "rows", "ms of a task", "ms of 1,000 rows")
    more = ("heaviest over mean", "samples")
    return Table(heads=(*heads, *more), rows=rows, texts=frozenset({"stage", "tasks by"}))


# Batch jobs ----------------------------------------------------------------------------------------


def _jobs(jobs: JobsAdvice) -> Section:
    return Section(
        id="jobs",
        title="Batch jobs",
        hint="The tasks that were measured, replayed on other numbers of cores.",
        parts=tuple(_parts_of(jobs)),
    )


def _parts_of(jobs: JobsAdvice) -> Iterator[Chart | Card | Table]:
    known = {each.cores: each for each in (*jobs.others, jobs.now, jobs.advised)}
    each = [known[cores] for cores in sorted(known)]
    yield Chart(
        title="The application, on other numbers of cores",
        x="cores",
        y="seconds",
        lines=(Line(name="seconds", points=tuple((one.cores, one.seconds) for one in each)),),
        marks=(
            Mark(name="now", at=(jobs.now.cores, jobs.now.seconds)),
            Mark(name="advised", at=(jobs.advised.cores, jobs.advised.seconds), advised=True),
        ),
        levels=(Level(name="any number of cores", y=jobs.least_seconds),),
    )
    same = jobs.now.cores == jobs.advised.cores
    yield Card(
        title="All is well" if same else "Something is to be changed",
        text=(
            f"With more than {counted(jobs.advised.cores, 'core')} hardly anything is gained; it had"
            f" {jobs.now.cores}."
        ),
        facts=(
            f"{short(jobs.now.seconds)} s now, {short(jobs.advised.seconds)} s then",
            f"tasks ran in {jobs.busy:.0%} of the time of the cores",
        ),
        weighty=not same,
    )
    rows = tuple(
        (
            str(one.cores),
            str(one.executors or "driver"),
            short(one.seconds),
            short(one.core_seconds),
        )
        for one in each[:MOST_ROWS]
    )
    yield Table(heads=("cores", "executors", "seconds", "core-seconds"), rows=rows)
