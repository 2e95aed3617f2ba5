"""What `rechannel scale` prints of an event log."""

from __future__ import annotations

from collections.abc import Iterable

from rechannel.cli.screen import count, say, share, show, show_prose, show_table, table
from rechannel.profiling.model.words import counted
from rechannel.scaling.files.spark.advice import JobsAdvice, LogAdvice, Predicted, QueryAdvice
from rechannel.scaling.files.spark.words import job_sentences, query_sentences


def show_log(made: LogAdvice) -> None:
    """Print what an application needs, stream by stream."""
    where = f" on {counted(made.executors, 'executor')}" if made.executors else ""
    show(f"{made.title}: {counted(made.cores, 'core')}{where}")
    for query in made.queries:
        show("")
        _prose(query_sentences(query))
        for note in query.notes:
            say(f"note: {query.name}: {note}")
        show("")
        _show_query(query)
    if made.jobs is not None:
        _prose(job_sentences(made.jobs))
        show("")
        _show_jobs(made.jobs)
    for note in made.notes:
        say(f"note: {note}")


def _prose(sentences: Iterable[str]) -> None:
    for each in sentences:
        show_prose(each)


def _show_query(query: QueryAdvice) -> None:
    numbers = ("executors", "partitions", "batch s", "from", "to", "of interval")
    rows = table("cores", *numbers, "", right=("cores", *numbers))
    known = {(each.cores, each.partitions): each for each in query.others}
    known |= {(each.cores, each.partitions): each for each in (query.now, query.advised)}
    for at, each in sorted(known.items()):
        rows.add_row(*_cells(each), _said(at, query.now, query.advised))
    show_table(rows)


def _cells(each: Predicted) -> list[str]:
    return [
        count(each.cores),
        count(each.executors or None),
        count(each.partitions),
        *(f"{ms / 1e3:,.2f}" for ms in (each.batch_ms, each.low_ms, each.high_ms)),
        share(each.used),
    ]


def _said(at: tuple[int, int], now: Predicted, advised: Predicted) -> str:
    told = {"now": now, "advised": advised}
    return ", ".join(name for name, what in told.items() if at == (what.cores, what.partitions))


def _show_jobs(jobs: JobsAdvice) -> None:
    numbers = ("executors", "s", "core seconds")
    rows = table("cores", *numbers, "", right=("cores", *numbers))
    known = {each.cores: each for each in (*jobs.others, jobs.now, jobs.advised)}
    for cores, each in sorted(known.items()):
        said = [
            name
            for name, what in (("now", jobs.now), ("enough", jobs.advised))
            if cores == what.cores
        ]
        rows.add_row(
            count(cores),
            count(each.executors or None),
            f"{each.seconds:,.1f}",
            count(each.core_seconds),
            ", ".join(said),
        )
    show_table(rows)
