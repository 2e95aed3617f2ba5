"""From a trace to a profile with findings: the whole analysis, as a function of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import polars as pl

from rechannel.errors import TraceError
from rechannel.profiling.model.batches import StreamBatch, choose_batches
from rechannel.profiling.model.finding import Finding, ordered
from rechannel.profiling.model.findings import beside, findings, suspects
from rechannel.profiling.model.gains import Change, gains
from rechannel.profiling.model.landmarks import Landmarks
from rechannel.profiling.model.phases import Fit, fit, fit_batches, phases_of
from rechannel.profiling.model.pieces import Pieces, TraceSource, windows_of
from rechannel.profiling.model.placement import Placement, TaskSeat, placements
from rechannel.profiling.model.summaries import CellStore, MapPieces, Profile, profiled
from rechannel.profiling.model.trace import MS, NS
from rechannel.profiling.model.words import counted, seconds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Analysis:
    """A profile with its findings."""

    title: str
    """Name of the application and its version, or of the file."""
    pieces: Pieces
    """The trace, cut into pieces; pictures of single windows are drawn from them."""
    wholes: Pieces
    """The trace in windows for which gains are computed."""
    profile: Profile
    findings: list[Finding]
    """What stands out, the largest gain first."""
    notes: list[str] = field(default_factory=list)
    """Problems of the input, as sentences."""
    places: list[Placement] = field(default_factory=list)
    """Tasks of a Rechannel job that should run on another executor."""
    landmarks: Landmarks = field(default_factory=Landmarks)
    """Jobs, stages and batches on the axis of time; hosts; which operator reads from which."""
    application: str = ""
    """Name of the application; "" if the trace does not say."""
    page: Callable[[Analysis], str] | None = None
    """Makes what notebooks show."""

    def __str__(self) -> str:
        """Return the findings, one per line."""
        lines = [f"{self.title}: {counted(len(self.profile.windows), 'window')}"]
        lines += [f"- {finding.text}" for finding in self.findings]
        return "\n".join(lines if self.findings else [*lines, "Nothing stands out."])

    def __repr__(self) -> str:
        windows = counted(len(self.profile.windows), "window")
        return f"<Analysis of {self.title!r}: {windows}, {counted(len(self.findings), 'finding')}>"

    def _repr_html_(self) -> str | None:
        """Return the page for a notebook; None if nothing makes it, so that text is shown."""
        return None if self.page is None else self.page(self)

    def gain(
        self,
        *,
        activity: str | None = None,
        worker: str | None = None,
        operator: str | None = None,
        to: str | None = None,
    ) -> float:
        """Return how many seconds shorter the run would be if some activities and messages took no time.

        They have everything that is given; `to` is the receiver of messages. Raises TraceError if
        the trace has no such name.
        """
        names = self.pieces.source.names
        change = Change(
            kinds=None if activity is None else frozenset({names.kind(activity)}),
            worker=None if worker is None else _number(names.workers, worker, "worker"),
            operator=None if operator is None else _number(names.operators, operator, "operator"),
            peer=None if to is None else _number(names.workers, to, "worker"),
            messages=None if to is None else True,
        )
        return gains([change], self.wholes)[0] / NS


def _number(names: Sequence[str], name: str, what: str) -> int:
    """Return the index of a name. Raises TraceError."""
    if name not in names:
        msg = f"the trace has no {what} {name!r}; it has {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}"
        raise TraceError(msg)
    return list(names).index(name)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenedTrace:
    """A trace that is ready to be analysed, whatever it was read from."""

    title: str
    """Name of the application and its version, or of the file."""
    source: TraceSource
    notes: list[str] = field(default_factory=list)
    """Problems of the input, as sentences."""
    seats: Mapping[str, TaskSeat] = field(default_factory=dict)
    """Where workers ran, by worker, if they are tasks of a Rechannel job."""
    batches: Sequence[StreamBatch] = ()
    """Batches of streams; timesteps of a Rechannel job."""
    task: int = 0
    """Length of the median task, ns; 0 if unknown."""
    diagnosis: Callable[[int, int], Sequence[Finding]] | None = None
    """Returns what is found in more than the trace, between two times, ns, if there is more; called once."""
    landmarks: Landmarks = field(default_factory=Landmarks)
    application: str = ""
    """Name of the application; "" if the trace does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """Which part of a trace is profiled, and in which windows. All times are seconds."""

    window: float | Literal["batch"] | None = None
    """Length of a window; "batch" for one per batch of a stream; None for windows that follow what the application
    does, see `phases`."""
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
        what = f"from {seconds(options.since)} on"
        if options.until is not None:
            what = f"between {seconds(options.since)} and {seconds(options.until)}"
        msg = f"{trace.title} has nothing {what}: it lasts {seconds((end - begin) / NS)}"
        raise TraceError(msg)
    threshold = round(options.threshold * NS)
    fits = _fitted(trace, options, (first, last))
    wholes = Pieces.of(trace.source, fits.wholes, threshold)
    windows = fits.windows
    if isinstance(options.window, float | int):
        windows = windows_of((first, last), max(1, round(options.window * NS)))
    told = None if trace.diagnosis is None else trace.diagnosis(first, last)
    pieces = Pieces.of(trace.source, windows, threshold)
    found = analyse_pieces(trace, pieces, each, held, wholes, told)
    if windows is not fits.windows:
        return found
    numbers = pl.Series("batch", list(fits.numbers), dtype=pl.Int64)
    made = found.profile
    return replace(found, profile=replace(made, windows=made.windows.with_columns(numbers)))


def _fitted(trace: OpenedTrace, options: ProfileOptions, span: tuple[int, int]) -> Fit:
    """Return the windows that follow what the application does. span: ns."""
    if options.window == "batch":
        chosen = choose_batches(trace.batches, options.query, trace.title)
        return fit_batches(trace.source, span, chosen)
    streams = {batch.query for batch in trace.batches}
    phases = phases_of(trace.landmarks.marks, trace.source.span[1])
    if options.query is not None or len(streams) == 1:
        chosen = choose_batches(trace.batches, options.query, trace.title)
        return fit(trace.source, span, phases, chosen, trace.task)
    phases += [(batch.start * MS, batch.end * MS) for batch in trace.batches]
    return fit(trace.source, span, phases, task=trace.task)


def analyse_pieces(
    trace: OpenedTrace,
    pieces: Pieces,
    each: MapPieces = map,
    held: CellStore | None = None,
    wholes: Pieces | None = None,
    diagnosed: Sequence[Finding] | None = None,
) -> Analysis:
    """Profile a trace that has been cut into pieces.

    wholes: the same trace in windows for which gains are computed; those of `pieces` by default.
    diagnosed: what is found in more than the trace; None if there is no more.
    """
    wholes = pieces if wholes is None else wholes
    made = profiled(pieces, each, held)
    suspected = suspects(made)
    if diagnosed is not None:
        suspected = beside(suspected, diagnosed)
    changes = [suspect.change for suspect in suspected if suspect.change is not None]
    won = dict(zip(changes, gains(changes, wholes, each), strict=True))
    general = findings(suspected, won, sum(end - start for start, end in wholes.windows))
    notes = [*trace.notes, *pieces.notes]
    lost = int(made.windows["left_out"].sum()) if len(made.windows) else 0
    if lost:
        notes.append(
            f"{counted(lost, 'message')} without duration had to be left out because of a cycle"
        )
    idle = len(made.windows) - made.known
    if idle:
        notes.append(
            f"no critical path leads through {idle:,} of {counted(len(made.windows), 'window')}:"
            " every worker waited at some time"
        )
    return Analysis(
        title=trace.title,
        pieces=pieces,
        wholes=wholes,
        profile=made,
        findings=ordered([*(diagnosed or ()), *general]),
        notes=notes,
        places=placements(made, trace.seats),
        landmarks=trace.landmarks,
        application=trace.application,
    )
