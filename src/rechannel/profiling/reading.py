"""From a file to a profile: what kind of file it is, and how much is known of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path

import polars as pl

from rechannel.errors import TraceError
from rechannel.profiling.job_files import job_files, read_job
from rechannel.profiling.job_trace import job_trace
from rechannel.profiling.neutral import READERS, open_trace
from rechannel.profiling.pieces import Pieces, Source, windows_of
from rechannel.profiling.records import read_records
from rechannel.profiling.spark_files import log_lines
from rechannel.profiling.spark_log import Batch, SparkLog
from rechannel.profiling.spark_trace import spark_trace
from rechannel.profiling.stored import Stored
from rechannel.profiling.summaries import Each, Profile, profiled
from rechannel.profiling.threads import in_threads
from rechannel.profiling.together import Placement, Seat, together
from rechannel.profiling.trace import MS, NS, Trace
from rechannel.profiling.verdict import Finding, findings
from rechannel.profiling.whatif import with_gains


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Analysis:
    """A profile with what it says. notes: what is wrong with the input, in words. title: of the application.

    places: tasks of a job that should run elsewhere.
    """

    title: str
    pieces: Pieces
    profile: Profile
    findings: list[Finding]
    notes: list[str] = field(default_factory=list)
    places: list[Placement] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Opened:
    """A trace that can be analysed, wherever it comes from. notes: what is wrong with it, in words.

    seats: where workers run, if these are tasks of a job. batches: of streams; of a job, its timesteps.
    """

    title: str
    source: Source
    notes: list[str] = field(default_factory=list)
    seats: Mapping[str, Seat] = field(default_factory=dict)
    batches: Sequence[Batch] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How to look at a trace. window: its length, or None for a window per batch of a stream; times are seconds.

    query: the name or id of a stream, where windows are batches. since, until: from the begin of the trace.
    """

    window: float | None = 1.0
    threshold: float = 0.0
    query: str | None = None
    since: float = 0.0
    until: float | None = None


PLAIN = Asked()


def analyse(
    path: str | Path, asked: Asked = PLAIN, *, strict: bool = False, each: Each = in_threads
) -> Analysis:
    """Profile a Spark event log, a job's telemetry, or a trace. each: what applies a function to all pieces.

    Raises TraceError.
    """
    return analysed(opened(Path(path), strict=strict), asked, each)


def opened(place: Path, *, strict: bool = False) -> Opened:
    """What a file or directory holds. Raises TraceError."""
    if (files := job_files(place)) is not None:
        job = read_job(files, strict=strict)
        did = job_trace(job.log)
        return Opened(
            title=job.title,
            source=Stored.of(did.trace),
            notes=job.notes + did.notes,
            seats=did.seats,
            batches=[
                Batch(job.log.job, number, int(begun), ceil(over))
                for number, (begun, *_, over) in zip(
                    job.log.numbers.tolist(), job.log.steps.tolist(), strict=True
                )
            ],
        )
    if place.suffix in READERS:
        return Opened(title=place.name, source=open_trace(place))
    if place.suffix == ".msgpack":
        found = read_records(place)
        halves = f"{found.halves} halves of messages were left out" if found.halves else ""
        return Opened(
            title=place.name, source=Stored.of(found.trace), notes=[halves] if halves else []
        )
    log = SparkLog(strict=strict).read(log_lines(place), str(place))
    made = spark_trace(log)
    notes = [f"line {number} was skipped: {reason}" for number, reason in log.bad]
    if log.bad_lines > len(log.bad):
        notes.append(f"{log.bad_lines - len(log.bad)} more lines were skipped")
    if log.open_tasks:
        tasks = "1 task" if log.open_tasks == 1 else f"{log.open_tasks} tasks"
        notes.append(f"{tasks} had not ended where the log does")
    if made.crowded:
        notes.append(
            f"{made.crowded} tasks ran on executors whose cores were all busy: each got one more"
        )
    title = f"{log.name or place.name}, Spark {log.version or 'unknown'}"
    return Opened(title=title, source=made, notes=notes, batches=log.batches)


def analysis(trace: Trace, title: str, asked: Asked = PLAIN) -> Analysis:
    """Profile a trace that is in memory."""
    return analysed(Opened(title=title, source=Stored.of(trace)), asked)


def analysed(trace: Opened, asked: Asked = PLAIN, each: Each = in_threads) -> Analysis:
    """Profile a trace. Raises TraceError where there is nothing in what is asked for."""
    begin, end = trace.source.span
    first = begin + round(asked.since * NS)
    last = end if asked.until is None else min(end, begin + round(asked.until * NS))
    if begin < end and last <= first:
        what = f"from {asked.since:g} s on"
        if asked.until is not None:
            what = f"between {asked.since:g} and {asked.until:g} s"
        msg = f"{trace.title} has nothing {what}: it lasts {(end - begin) / NS:.1f} s"
        raise TraceError(msg)
    if asked.window is not None:
        windows = windows_of((first, last), max(1, round(asked.window * NS)))
        return of_pieces(trace, Pieces.of(trace.source, windows, round(asked.threshold * NS)), each)
    batches, windows = one_by_one(batches_of(trace, asked.query), first, last)
    found = of_pieces(trace, Pieces.of(trace.source, windows, round(asked.threshold * NS)), each)
    numbers = pl.Series("batch", [batch.number for batch in batches], dtype=pl.Int64)
    made = found.profile
    return replace(found, profile=replace(made, windows=made.windows.with_columns(numbers)))


def one_by_one(
    batches: Sequence[Batch], first: int, last: int
) -> tuple[list[Batch], list[tuple[int, int]]]:
    """Batches that are within a time, ns, and a window of each: what begins before another ends, begins behind it."""
    kept, windows, free = [], [], first
    for batch in batches:
        # Batches are told in whole milliseconds, and may seem to reach beyond the first and the last time.
        start, end = max(batch.start * MS, free), min(batch.end * MS, last)
        inside = batch.start * MS > first - MS and batch.end * MS < last + MS
        if inside and end > start:
            kept.append(batch)
            windows.append((start, end))
            free = end
    return kept, windows


def batches_of(trace: Opened, query: str | None) -> list[Batch]:
    """Batches of a stream, in their order. Raises TraceError where there are none, or of which stream is not clear."""
    queries = list(dict.fromkeys(batch.query for batch in trace.batches))
    if not queries:
        msg = f"{trace.title} has no batches of Structured Streaming: give the length of a window instead"
        raise TraceError(msg)
    if query is None and len(queries) > 1:
        msg = f"{trace.title} has batches of several streams: name one of {', '.join(queries)}"
        raise TraceError(msg)
    chosen = [batch for batch in trace.batches if query in (None, batch.query)]
    if not chosen:
        msg = f"{trace.title} has no stream {query!r}; it has {', '.join(queries)}"
        raise TraceError(msg)
    return sorted(chosen, key=lambda batch: batch.start)


def of_pieces(trace: Opened, pieces: Pieces, each: Each = in_threads) -> Analysis:
    """Profile the pieces of a trace."""
    made = profiled(pieces, each)
    told = with_gains(findings(made), pieces, each)
    notes = list(trace.notes)
    lost = int(made.windows["left_out"].sum()) if len(made.windows) else 0
    if lost:
        notes.append(f"{lost} messages without time went round in a circle and were left out")
    idle = len(made.windows) - made.known
    if idle:
        notes.append(
            f"through {idle} of {len(made.windows)} windows no path leads: everybody waited"
        )
    return Analysis(
        title=trace.title,
        pieces=pieces,
        profile=made,
        findings=told,
        notes=notes,
        places=together(made, trace.seats),
    )
