"""From a trace to a profile with findings: the whole analysis, as a function of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from rechannel.errors import TraceError
from rechannel.profiling.model.batches import StreamBatch, batch_windows, choose_batches
from rechannel.profiling.model.findings import Finding, findings
from rechannel.profiling.model.gains import with_gains
from rechannel.profiling.model.pieces import Pieces, TraceSource, windows_of
from rechannel.profiling.model.placement import Placement, TaskSeat, placements
from rechannel.profiling.model.summaries import CellStore, MapPieces, Profile, profiled
from rechannel.profiling.model.trace import NS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Analysis:
    """A profile with its findings."""

    title: str
    """Name of the application, or of the file."""
    pieces: Pieces
    """The trace, cut into pieces; pictures of single windows are drawn from them."""
    profile: Profile
    findings: list[Finding]
    """What stands out, most critical first."""
    notes: list[str] = field(default_factory=list)
    """Problems of the input, as sentences."""
    places: list[Placement] = field(default_factory=list)
    """Tasks of a Rechannel job that should run on another executor."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenedTrace:
    """A trace that is ready to be analysed, whatever it was read from."""

    title: str
    source: TraceSource
    notes: list[str] = field(default_factory=list)
    """Problems of the input, as sentences."""
    seats: Mapping[str, TaskSeat] = field(default_factory=dict)
    """Where workers ran, by worker, if they are tasks of a Rechannel job."""
    batches: Sequence[StreamBatch] = ()
    """Batches of streams; timesteps of a Rechannel job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """Which part of a trace is profiled, and in which windows. All times are seconds."""

    window: float | None = 1.0
    """Length of a window; None for one window per batch of a stream."""
    threshold: float = 0.0
    """Gaps shorter than this belong to the activities next to them."""
    query: str | None = None
    """Name or id of the stream whose batches are windows."""
    since: float = 0.0
    """Start, from the beginning of the trace."""
    until: float | None = None
    """End, from the beginning of the trace; None for all of it."""


DEFAULT_OPTIONS = ProfileOptions()


def analyse(
    trace: OpenedTrace,
    options: ProfileOptions = DEFAULT_OPTIONS,
    each: MapPieces = map,
    held: CellStore | None = None,
) -> Analysis:
    """Profile a trace. Raises TraceError if there is nothing between `since` and `until`.

    each: applies a function to all pieces. held: keeps the cells; in memory by default.
    """
    begin, end = trace.source.span
    first = begin + round(options.since * NS)
    last = end if options.until is None else min(end, begin + round(options.until * NS))
    if begin < end and last <= first:
        what = f"from {options.since:g} s on"
        if options.until is not None:
            what = f"between {options.since:g} and {options.until:g} s"
        msg = f"{trace.title} has nothing {what}: it lasts {(end - begin) / NS:.1f} s"
        raise TraceError(msg)
    threshold = round(options.threshold * NS)
    if options.window is not None:
        windows = windows_of((first, last), max(1, round(options.window * NS)))
        return analyse_pieces(trace, Pieces.of(trace.source, windows, threshold), each, held)
    chosen = choose_batches(trace.batches, options.query, trace.title)
    batches, batched = batch_windows(chosen, first, last)
    found = analyse_pieces(trace, Pieces.of(trace.source, batched, threshold), each, held)
    numbers = pl.Series("batch", [batch.number for batch in batches], dtype=pl.Int64)
    made = found.profile
    return replace(found, profile=replace(made, windows=made.windows.with_columns(numbers)))


def analyse_pieces(
    trace: OpenedTrace, pieces: Pieces, each: MapPieces = map, held: CellStore | None = None
) -> Analysis:
    """Profile a trace that has been cut into pieces."""
    made = profiled(pieces, each, held)
    told = with_gains(findings(made), pieces, each)
    notes = list(trace.notes)
    lost = int(made.windows["left_out"].sum()) if len(made.windows) else 0
    if lost:
        notes.append(f"{lost} messages without duration formed a cycle and were left out")
    idle = len(made.windows) - made.known
    if idle:
        notes.append(
            f"{idle} of {len(made.windows)} windows have no critical path: every worker waited at"
            " some time"
        )
    return Analysis(
        title=trace.title,
        pieces=pieces,
        profile=made,
        findings=told,
        notes=notes,
        places=placements(made, trace.seats),
    )
