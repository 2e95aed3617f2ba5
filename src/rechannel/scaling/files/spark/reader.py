"""From an event log to advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rechannel.errors import RefusedError, TraceError
from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.model.words import counted
from rechannel.profiling.spark.application import Application
from rechannel.profiling.spark.driver import task_cpus
from rechannel.profiling.spark.event_files import find_log
from rechannel.profiling.spark.opening import open_log
from rechannel.scaling.files.request import Request
from rechannel.scaling.files.spark.advice import LogAdvice
from rechannel.scaling.files.spark.batches import batch_model
from rechannel.scaling.files.spark.cluster import Cluster
from rechannel.scaling.files.spark.jobs import jobs_advice
from rechannel.scaling.files.spark.query import query_advice
from rechannel.scaling.files.spark.seen import LEAST_BATCHES, StreamSeen, streams_seen

FIRST = 4_096
"""Bytes of the first line that are looked at."""


def is_log(place: Path) -> bool:
    """Return whether a file or directory is an event log, by its first line."""
    try:
        first = next(iter(find_log(place).lines()), b"")[:FIRST]
    except TraceError:
        return False
    return first.lstrip().startswith(b"{") and b'"Event"' in first


def log_advice(place: Path, asked: Request) -> LogAdvice:
    """Return what an application needs. Raises TraceError, RefusedError for a query that the log does not have."""
    opened = open_log(place)
    return advice_of(opened.log.facts(), asked, title=opened.title, notes=opened.notes)


def advice_of(
    app: Application, asked: Request, *, title: str, notes: Sequence[str] = ()
) -> LogAdvice:
    """Return what an application needs. Raises RefusedError for a query that it does not have."""
    case = Case(app=app)
    cluster = Cluster.of(app, case.table)
    seen = _asked_for(streams_seen(app), asked.query, title)
    full = [each for each in seen if len(each.batches) >= LEAST_BATCHES and each.stages]
    queries = []
    for each in full:
        cores = cluster.cores_in(each.batches[0].start, each.batches[-1].end)
        queries.append(query_advice(each, batch_model(each, cores, _given(app)), asked, cluster))
    return LogAdvice(
        title=title,
        cores=cluster.cores,
        executors=cluster.executors,
        executor_cores=cluster.slots(asked.executor_cores),
        queries=tuple(queries),
        jobs=None if seen or app.streams else jobs_advice(case, cluster, asked),
        notes=(*notes, *_notes(app, seen, full, has_tasks=bool(len(case.table)))),
    )


def _asked_for(seen: Sequence[StreamSeen], query: str | None, title: str) -> Sequence[StreamSeen]:
    if query is None:
        return seen
    if chosen := [each for each in seen if each.query == query]:
        return chosen
    names = ", ".join(each.query for each in seen)
    known = (
        f"choose one of {names}" if names else "it has no batches of any query: leave out the query"
    )
    raise RefusedError(f"{title} has no query {query!r}: {known}")


def _given(app: Application) -> int | None:
    """Return the shuffle partitions that are set; None if the log does not say."""
    told = app.settings.get("spark.sql.shuffle.partitions", "")
    return max(1, int(told)) if told.isdecimal() and len(told) < 8 else None


def _notes(
    app: Application, seen: Sequence[StreamSeen], full: Sequence[StreamSeen], *, has_tasks: bool
) -> Iterator[str]:
    if not has_tasks:
        yield "the log has no tasks: there is nothing from which advice could follow"
    elif app.streams and not seen:
        yield "no query has batches in the log: give a log of a query that has run for a while"
    for each in seen:
        if each not in full:
            yield _too_little(each)
    if len(full) > 1:
        yield (
            f"{len(full)} queries share the cores: the advice for each supposes that the others go on as they did, so"
            " all of them together need up to the sum"
        )
    if (cpus := task_cpus(app)) > 1:
        yield f"spark.task.cpus is {cpus}: a core here is what a task runs on, {cpus} of an executor"
    if app.dynamic:
        yield "the application had dynamic allocation: its cores are those that it had on average"


def _too_little(seen: StreamSeen) -> str:
    if len(seen.batches) >= LEAST_BATCHES:
        return f"query {seen.query} has no advice: the log has no tasks of its batches; give the whole log"
    return (
        f"query {seen.query} has {counted(len(seen.batches), 'batch', 'batches')} with rows after its warm-up, and"
        f" advice needs {LEAST_BATCHES}: let it run longer"
    )
