"""Findings in words: what dominates the critical path, in how many windows, and what to try.

Kinds of activity are grouped into `CAUSES`. A worker is a straggler if work dominates and its own
share of the critical path is `STRAGGLER` times that of the next worker: SnailTrail's example of
skew has 2.5 (figure 10).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from rechannel.profiling.model.summaries import Profile
from rechannel.profiling.model.trace import CONTROL, DATA, UNKNOWN

STRAGGLER = 2.0
"""How many times as critical as the next worker a straggler is."""
DIGITS = 9
"""Shares that are equal after rounding to so few digits are equal."""
LEADS = 0.1
"""The smallest share of the critical path that is reported."""

SCHEDULING, COMMUNICATION, PROCESSING = "scheduling", "communication", "processing"
PROGRAM, NOTHING, STRAGGLING, IDLE = "driver program", "nothing known", "straggler", "idle"
CAUSES: Mapping[str, tuple[str, ...]] = {
    SCHEDULING: (SCHEDULING, "batch planning", "planning", CONTROL),
    IDLE: (IDLE,),
    COMMUNICATION: (
        *(DATA, "fetch wait", "shuffle write", "buffer", "input"),
        *("receive", "send", "fetch", "outbox"),
    ),
    PROGRAM: (
        *(PROGRAM, "commit", "release", "publish", "starting up", "waiting for executors"),
        *("waiting for a copy", "broadcast building", "collecting results", "listing files"),
    ),
    NOTHING: (UNKNOWN,),
}
"""Kinds of activity by what they indicate; all other kinds are work on rows."""

DRIVERS = ("driver", "publisher")
"""Workers without rows that could be split or moved."""

ADVICE: Mapping[str, str] = {
    SCHEDULING: "Tasks do too little work for what they cost to start: make batches larger, or use fewer partitions",
    COMMUNICATION: "Rows wait for the network or disk between stages: send fewer (combine before the shuffle, select"
    " columns), or put the stages that exchange the most on one host",
    PROCESSING: "Workers are busy with rows: make that part cheaper, or give it more tasks if cores are idle",
    PROGRAM: "Executors wait for code on the driver between jobs: planning, commits, sinks, or the program itself",
    IDLE: "No batch was running: the stream keeps up with its input",
    NOTHING: "The trace does not say what happened there: trace more, or look at what the workers waited for",
    STRAGGLING: "The other workers wait for it: split or move its hot keys, or check its machine",
}
"""What to try, by cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that stands out."""

    cause: str
    """One of `CAUSES`, or processing, or straggler."""
    share: float
    """Share of the critical path."""
    profile: float
    """Share of all time, which is what a conventional profile reports."""
    windows: int
    """Number of windows in which it is the largest."""
    of: int
    """Number of windows in all."""
    about: str
    """Beginning of the sentence."""
    gain: float | None = None
    """Upper bound of how much shorter the run would be without it, as a share; None if not
    computed.
    """
    worker: str = ""
    """The worker that straggles."""

    @property
    def text(self) -> str:
        """The finding as one or two sentences."""
        gain = ""
        if self.gain is not None:
            gain = f" Without it, windows would be at most {self.gain:.0%} shorter."
        leads = ""
        if self.windows:
            plural = "" if self.of == 1 else "s"
            leads = f" and the largest part of it in {self.windows} of {self.of} window{plural}"
        return (
            f"{self.about} {self.share:.0%} of the critical path ({self.profile:.0%} of all time)"
            f"{leads}. {ADVICE[self.cause]}.{gain}"
        )


def findings(found: Profile) -> list[Finding]:
    """Return what stands out, most critical first; nothing if no window has a path."""
    if not found.known:
        return []
    causes = {i: cause_of(name) for i, name in enumerate(found.names.kinds)}
    by_window = _by_cause(found, causes)
    leaders = _leaders(by_window)
    sums = (
        by_window.group_by("cause")
        .agg(pl.sum("critical", "profile"))
        # Shares that differ only by rounding are equal.
        .with_columns(pl.col("critical").round(DIGITS))
        .sort(["critical", "cause"], descending=[True, False])
    )
    out = []
    for cause, critical, profile in sums.iter_rows():
        share = round(critical / found.known, DIGITS)
        if share < LEADS:
            continue
        out.append(
            Finding(
                cause=cause,
                share=share,
                profile=profile / found.known,
                windows=leaders.get(cause, 0),
                of=found.known,
                about=_about(found, cause),
            )
        )
    if out and out[0].cause == PROCESSING and (straggler := _straggler(found)) is not None:
        out.insert(0, straggler)
    return out


def cause_of(kind: str) -> str:
    """Return the cause that a kind of activity indicates."""
    return next((cause for cause, kinds in CAUSES.items() if kind in kinds), PROCESSING)


def _by_cause(found: Profile, causes: Mapping[int, str]) -> pl.DataFrame:
    named = found.in_known().with_columns(
        pl.col("kind").replace_strict(causes, return_dtype=pl.String).alias("cause")
    )
    sums = named.group_by("window", "cause").agg(pl.sum("critical", "profile"))
    return sums.collect(engine="streaming")


def _leaders(by_window: pl.DataFrame) -> dict[str, int]:
    """Return in how many windows each cause is the largest."""
    first = (
        by_window.sort(["critical", "cause"], descending=[True, False]).group_by("window").first()
    )
    return dict(first.group_by("cause").len().iter_rows())


def _about(found: Profile, cause: str) -> str:
    if cause == SCHEDULING:
        return "Scheduling is"
    if cause == COMMUNICATION:
        return "Communication is"
    if cause == PROGRAM:
        return "Code on the driver is"
    if cause == IDLE:
        return "Waiting for input or the next trigger is"
    if cause == NOTHING:
        return "Unknown activity is"
    kinds = [i for i, name in enumerate(found.names.kinds) if cause_of(name) == PROCESSING]
    operators = found.by(
        "operator",
        where=~pl.col("message") & (pl.col("operator") >= 0) & pl.col("kind").is_in(kinds),
    )
    if not len(operators):
        return "Work on rows is"
    name, critical = operators["operator"][0], operators["critical"][0]
    return f"Work on rows ({critical:.0%} in {name!r}) is"


def _straggler(found: Profile) -> Finding | None:
    """Return the worker that the others wait for, if there is one."""
    workers = found.by_worker().filter(~pl.col("worker").is_in(DRIVERS))
    if len(workers) < 2:
        return None
    first, second = workers["critical"][0], workers["critical"][1]
    if first < LEADS or first < STRAGGLER * second:
        return None
    name = workers["worker"][0]
    windows = found.over_time("worker", "message").filter(
        ~pl.col("message") & ~pl.col("worker").is_in(DRIVERS)
    )
    lead = (
        windows.filter(pl.col("critical") > 0)
        .sort(["critical", "worker"], descending=[True, False])
        .group_by("window")
        .first()
    )
    times = f"{first / second:.1f} times" if second else "many times"
    theirs = found.by("worker", "operator", where=~pl.col("message") & (pl.col("operator") >= 0))
    theirs = theirs.filter(worker=name)
    most = f", most of that in {theirs['operator'][0]!r}" if len(theirs) else ""
    return Finding(
        cause=STRAGGLING,
        share=first,
        profile=workers["profile"][0],
        windows=int((lead["worker"] == name).sum()),
        of=found.known,
        about=f"{name} is {times} as critical as the next worker{most}: it is",
        worker=name,
    )
