"""From a file to a profile: recognise the kind of file, open it, analyse it."""

from __future__ import annotations

from math import ceil
from pathlib import Path

import numpy as np

from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.diagnosis.registry import diagnosed
from rechannel.profiling.files.snailtrail import read_records
from rechannel.profiling.files.table import READERS, open_trace
from rechannel.profiling.job.telemetry_files import JobFiles, job_files, read_job
from rechannel.profiling.job.trace import job_trace
from rechannel.profiling.model.analysis import (
    DEFAULT_OPTIONS,
    Analysis,
    OpenedTrace,
    ProfileOptions,
    analyse,
)
from rechannel.profiling.model.batches import StreamBatch
from rechannel.profiling.model.landmarks import Landmarks, Mark, MarkKind
from rechannel.profiling.model.pieces import Pieces, TraceSource, windows_of
from rechannel.profiling.model.summaries import MapPieces, Profile, profiled
from rechannel.profiling.model.trace import MS, Trace
from rechannel.profiling.model.words import counted
from rechannel.profiling.spark.landmarks import spark_landmarks
from rechannel.profiling.spark.opening import open_log
from rechannel.profiling.spark.part import part_of
from rechannel.profiling.spark.trace import SparkTrace, spark_trace
from rechannel.profiling.storage.cells import SpilledCells
from rechannel.profiling.storage.stored import StoredTrace
from rechannel.profiling.threads import in_threads

SAMPLE = 4_096
"""Tasks of a block of which the median is computed, at most."""


def analyse_file(
    path: str | Path,
    options: ProfileOptions = DEFAULT_OPTIONS,
    *,
    strict: bool = False,
    each: MapPieces = in_threads,
) -> Analysis:
    """Profile a Spark event log, the telemetry of a job, or a trace.

    strict: raise on the first bad line instead of skipping it. each: applies a function to all
    pieces of the trace. Raises TraceError.
    """
    return analyse(open_file(Path(path), strict=strict), options, each, SpilledCells())


def analyse_trace(trace: Trace, title: str, options: ProfileOptions = DEFAULT_OPTIONS) -> Analysis:
    """Profile a trace that is in memory."""
    return analyse(OpenedTrace(title=title, source=StoredTrace.of(trace)), options, in_threads)


def profile_trace(
    source: TraceSource | Trace, *, window: int, threshold: int = 0, each: MapPieces = map
) -> Profile:
    """Compute critical participation of a trace, without findings. window, threshold: ns."""
    source = StoredTrace.of(source) if isinstance(source, Trace) else source
    pieces = Pieces.of(source, windows_of(source.span, window), threshold)
    return profiled(pieces, each, SpilledCells())


def open_file(place: Path, *, strict: bool = False) -> OpenedTrace:
    """Open a file or directory as the kind of trace that it holds. Raises TraceError."""
    if (files := job_files(place)) is not None:
        return _open_job(files, strict=strict)
    if place.suffix in READERS:
        return OpenedTrace(title=place.name, source=open_trace(place))
    if place.suffix == ".msgpack":
        return _open_records(place)
    return _open_spark(place, strict=strict)


def _open_job(files: JobFiles, *, strict: bool) -> OpenedTrace:
    job = read_job(files, strict=strict)
    did = job_trace(job.log)
    spans = zip(job.log.numbers.tolist(), job.log.steps.tolist(), strict=True)
    batches = [
        StreamBatch(job.log.job, number, int(begun), ceil(over))
        for number, (begun, *_, over) in spans
    ]
    return OpenedTrace(
        title=job.title,
        application=job.log.job,
        source=StoredTrace.of(did.trace),
        notes=job.notes + did.notes,
        seats=did.seats,
        batches=batches,
        landmarks=Landmarks(
            marks=[
                Mark(
                    what=MarkKind.TIMESTEP,
                    number=each.number,
                    start=each.start * MS,
                    end=each.end * MS,
                )
                for each in batches
            ]
        ),
    )


def _open_records(place: Path) -> OpenedTrace:
    found = read_records(place)
    notes = []
    if found.halves:
        halves = counted(found.halves, "half of a message has", "halves of messages have")
        notes.append(f"{halves} no other half: left out")
    return OpenedTrace(title=place.name, source=StoredTrace.of(found.trace), notes=notes)


def _open_spark(place: Path, *, strict: bool) -> OpenedTrace:
    opened = open_log(place, strict=strict)
    log, notes = opened.log, opened.notes
    made = spark_trace(log)
    if made.crowded:
        tasks = counted(made.crowded, "task")
        notes.append(
            f"{tasks} started on executors whose cores were all busy: each was given an extra core"
        )
    facts = log.facts()
    return OpenedTrace(
        title=opened.title,
        application=log.name,
        source=made,
        notes=notes,
        batches=log.batches,
        task=_median_task(made),
        diagnosis=lambda first, last: diagnosed(Case(app=part_of(facts, first, last))),
        landmarks=spark_landmarks(facts),
    )


def _median_task(made: SparkTrace) -> int:
    """Return the length of the median task, of a sample if there are very many; 0 without tasks. ns."""
    blocks = made.placed.tasks.each()
    lengths = [(rows["finish"] - rows["launch"])[:: len(rows) // SAMPLE + 1] for rows in blocks]
    return int(np.median(np.concatenate(lengths))) if lengths else 0
