"""From a file to a profile: what kind of file it is, and how much is known of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rechannel.profiling.job_files import job_files, read_job
from rechannel.profiling.job_trace import job_trace
from rechannel.profiling.neutral import READERS, read_trace
from rechannel.profiling.records import read_records
from rechannel.profiling.spark_files import log_lines
from rechannel.profiling.spark_log import SparkLog
from rechannel.profiling.spark_trace import spark_trace
from rechannel.profiling.summaries import Profile, graphs, profile
from rechannel.profiling.timeline import Timeline, timeline
from rechannel.profiling.trace import Trace
from rechannel.profiling.verdict import Finding, findings
from rechannel.profiling.whatif import with_gains

NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Analysis:
    """A profile with what it says. notes: what is wrong with the input, in words. title: of the application."""

    title: str
    trace: Trace
    line: Timeline
    profile: Profile
    findings: list[Finding]
    notes: list[str] = field(default_factory=list)


def analyse(
    path: str | Path, *, window: float = 1.0, threshold: float = 0.0, strict: bool = False
) -> Analysis:
    """Profile a Spark event log, a job's telemetry, or a trace. window, threshold: seconds. Raises TraceError."""
    place = Path(path)
    if (files := job_files(place)) is not None:
        job = read_job(files, strict=strict)
        did = job_trace(job.log)
        return analysis(
            did.trace, job.title, window=window, threshold=threshold, notes=job.notes + did.notes
        )
    if place.suffix in READERS:
        return analysis(read_trace(place), place.name, window=window, threshold=threshold)
    if place.suffix == ".msgpack":
        found = read_records(place)
        halves = f"{found.halves} halves of messages were left out" if found.halves else ""
        notes = [halves] if halves else []
        return analysis(found.trace, place.name, window=window, threshold=threshold, notes=notes)
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
    return analysis(made.trace, title, window=window, threshold=threshold, notes=notes)


def analysis(
    trace: Trace, title: str, *, window: float, threshold: float, notes: list[str] | None = None
) -> Analysis:
    """Profile a trace. window, threshold: seconds."""
    length, shortest = max(1, round(window * NS)), round(threshold * NS)
    line = timeline(trace, threshold=shortest)
    made = profile(trace, line, window=length)
    told = with_gains(findings(made), graphs(trace, line, length), trace.names)
    notes = list(notes or ())
    lost = int(made.windows["left_out"].sum()) if len(made.windows) else 0
    if lost:
        notes.append(f"{lost} messages without time went round in a circle and were left out")
    idle = len(made.windows) - made.known
    if idle:
        notes.append(
            f"through {idle} of {len(made.windows)} windows no path leads: everybody waited"
        )
    return Analysis(title=title, trace=trace, line=line, profile=made, findings=told, notes=notes)
