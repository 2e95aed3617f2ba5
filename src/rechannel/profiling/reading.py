"""From a file to a profile: what kind of file it is, and how much is known of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rechannel.profiling.neutral import READERS, open_trace
from rechannel.profiling.pieces import Pieces, Source, windows_of
from rechannel.profiling.records import read_records
from rechannel.profiling.spark_files import log_lines
from rechannel.profiling.spark_log import SparkLog
from rechannel.profiling.spark_trace import spark_trace
from rechannel.profiling.stored import Stored
from rechannel.profiling.summaries import Each, Profile, profiled
from rechannel.profiling.trace import Trace
from rechannel.profiling.verdict import Finding, findings
from rechannel.profiling.whatif import with_gains

NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Analysis:
    """A profile with what it says. notes: what is wrong with the input, in words. title: of the application."""

    title: str
    pieces: Pieces
    profile: Profile
    findings: list[Finding]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Opened:
    """A trace that can be analysed, wherever it comes from. notes: what is wrong with it, in words."""

    title: str
    source: Source
    notes: list[str] = field(default_factory=list)


def analyse(
    path: str | Path,
    *,
    window: float = 1.0,
    threshold: float = 0.0,
    strict: bool = False,
    each: Each = map,
) -> Analysis:
    """Profile a Spark event log or a trace. window, threshold: seconds. each: who works. Raises TraceError."""
    return analysed(opened(Path(path), strict=strict), window, threshold, each)


def opened(place: Path, *, strict: bool = False) -> Opened:
    """What a file or directory holds. Raises TraceError."""
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
    if made.crowded:
        notes.append(
            f"{made.crowded} tasks ran on executors whose cores were all busy: each got one more"
        )
    title = f"{log.name or place.name}, Spark {log.version or 'unknown'}"
    return Opened(title=title, source=made, notes=notes)


def analysis(trace: Trace, title: str, *, window: float, threshold: float) -> Analysis:
    """Profile a trace that is in memory. window, threshold: seconds."""
    return analysed(Opened(title=title, source=Stored.of(trace)), window, threshold)


def analysed(trace: Opened, window: float, threshold: float = 0.0, each: Each = map) -> Analysis:
    """Profile a trace. window, threshold: seconds."""
    windows = windows_of(trace.source.span, max(1, round(window * NS)))
    return of_pieces(trace, Pieces.of(trace.source, windows, round(threshold * NS)), each)


def of_pieces(trace: Opened, pieces: Pieces, each: Each = map) -> Analysis:
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
    return Analysis(title=trace.title, pieces=pieces, profile=made, findings=told, notes=notes)
