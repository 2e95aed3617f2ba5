"""What any profile says in words: what is on the critical path, and which worker straggles.

These findings need nothing but a trace. Kinds of activity are grouped by what they indicate (`GROUPS`).
No work, message or plan takes no time at all, so the gain of a group is what half of its time would
gain. A worker straggles if its work takes `STRAGGLER` times as long as that of the median worker of the
same operator; its gain is what the median would gain. Where all workers have as much to do, none
straggles, and neither does one of two that are equally slow. Work on rows has no gain of its own
while it is on the path because of a straggler.

What is known of an application beyond its trace is in `diagnosis/`, whose findings come first: see `beside`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from rechannel.profiling.model.causes import CAUSES
from rechannel.profiling.model.finding import WEIGHT, Certainty, Evidence, Finding, Place
from rechannel.profiling.model.gains import Change
from rechannel.profiling.model.summaries import Profile
from rechannel.profiling.model.trace import CONTROL, DATA, NS, UNKNOWN, Names
from rechannel.profiling.model.words import percent, seconds

STRAGGLER = 1.5
"""How many times as long as the median worker a straggler works."""
LEADS = 0.1
"""The smallest share of the critical path that is reported."""
LEAST = 0.05
"""The smallest gain for which a worker is called a straggler; a gain is at most the worker's share of the path."""

HALF = 0.5
"""What is left of the time of a group whose gain is computed."""

SCHEDULING, COMMUNICATION, PROCESSING = "scheduling", "communication", "processing"
PROGRAM, NOTHING, STRAGGLING, IDLE = "driver-program", "nothing-known", "straggler", "idle"
STARTING, LATE = "start-up", "late-executors"
GROUPS: Mapping[str, tuple[str, ...]] = {
    SCHEDULING: (SCHEDULING, "batch planning", "planning", CONTROL),
    IDLE: (IDLE,),
    COMMUNICATION: (
        *(DATA, "fetch wait", "shuffle write", "buffer", "input"),
        *("receive", "send", "fetch", "outbox"),
    ),
    STARTING: ("starting up",),
    LATE: ("waiting for executors",),
    PROGRAM: (
        *("driver program", "commit", "release", "publish", "waiting for a copy"),
        *("broadcast building", "collecting results", "listing files"),
    ),
    NOTHING: (UNKNOWN,),
}
"""Kinds of activity by what they indicate; all other kinds are work on rows."""
CERTAIN = frozenset({IDLE, NOTHING})
"""Causes that the trace states. They have no gain."""

DRIVERS = ("driver", "publisher")
"""Workers without rows that could be split or moved."""

SUBJECTS: Mapping[str, str] = {
    SCHEDULING: "Scheduling",
    COMMUNICATION: "Communication",
    PROCESSING: "Work on rows",
    STARTING: "Starting up",
    LATE: "Waiting for executors",
    PROGRAM: "Code on the driver",
    IDLE: "Idle time",
    NOTHING: "Unknown time",
}
"""What groups are called in sentences, by cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """What may be a finding, before its gain is known."""

    cause: str
    """One of `GROUPS`, or processing, or straggler."""
    about: str
    """What it is, as sentences without its gain."""
    share: float
    """Share of the critical path."""
    change: Change | None = None
    """What the gain is computed for; None if it has no gain."""
    place: Place = field(default_factory=Place)
    evidence: tuple[Evidence, ...] = ()


def cause_of(kind: str) -> str:
    """Return the cause that a kind of activity indicates."""
    return next((cause for cause, kinds in GROUPS.items() if kind in kinds), PROCESSING)


def suspects(found: Profile) -> list[Suspect]:
    """Return what may stand out in a profile; nothing if no window has a path."""
    if not found.known:
        return []
    kinds = found.by_activity().with_columns(
        pl.col("kind").map_elements(cause_of, return_dtype=pl.String).alias("cause")
    )
    sums = kinds.group_by("cause").agg(pl.sum("critical", "profile")).sort("cause")
    groups = [
        Suspect(
            cause=cause,
            about=_about(found, cause, _shares(critical, profile)),
            share=critical,
            change=None if cause in CERTAIN else _half(found.names, cause),
        )
        for cause, critical, profile in sums.iter_rows()
        if critical >= LEADS
    ]
    return [*groups, *_stragglers(found)]


def beside(found: Sequence[Suspect], diagnosed: Sequence[Finding]) -> list[Suspect]:
    """Return what the trace alone says beside a diagnosis.

    The diagnosis knows what mending a cause gains, so half the time of a group does not compete
    with that. It knows the tasks, too: if it names a cause of weight, the worker on which many of
    them ran is not named again, and neither is the driver as a whole, nor a start of usual length.
    """
    explained = any(each.weighty for each in diagnosed)
    again = {STRAGGLING, PROGRAM, STARTING} if explained else set()
    said = {each.cause for each in diagnosed} | again
    return [
        each if each.cause == STRAGGLING else replace(each, change=None)
        for each in found
        if each.cause not in said
    ]


def findings(found: Sequence[Suspect], gains: Mapping[Change, int], length: int) -> list[Finding]:
    """Return the findings among some suspects.

    gains: of their changes, ns. length: of the run, ns.
    """
    length = max(1, length)
    told = [(each, 0 if each.change is None else gains[each.change]) for each in found]
    late = [gain / length for each, gain in told if each.cause == STRAGGLING]
    without = {PROCESSING} if max(late, default=0.0) >= WEIGHT else set()
    return [
        _finding(replace(each, change=None) if each.cause in without else each, gain, length)
        for each, gain in told
        if each.cause != STRAGGLING or gain / length >= LEAST
    ]


def _finding(suspect: Suspect, gain: int, length: int) -> Finding:
    """Return a suspect as a finding. gain, length: ns; the gain counts if there is a change."""
    cause, text, share, won = suspect.cause, suspect.about, None, None
    if suspect.change is not None:
        share, won = gain / length, gain / NS
        median = "had as much to do as the median worker"
        less = median if cause == STRAGGLING else "took half the time"
        text += f" If it {less}, the run would be {percent(share)} ({seconds(won)}) shorter."
    return Finding(
        cause=cause,
        text=text,
        advice=CAUSES[cause].change,
        gain=share,
        seconds=won,
        certainty=Certainty.CERTAIN if cause in CERTAIN else Certainty.LIKELY,
        place=suspect.place,
        evidence=suspect.evidence,
        share=suspect.share,
    )


def _half(names: Names, cause: str) -> Change:
    """Return the change in which a group takes half of its time."""
    return Change(kinds=_kinds(names, cause), left=HALF)


def _kinds(names: Names, cause: str) -> frozenset[int]:
    """Return the kinds of activity that indicate a cause."""
    return frozenset(i for i, name in enumerate(names.kinds) if cause_of(name) == cause)


def _shares(critical: float, profile: float) -> str:
    return f"{percent(critical)} of the critical path ({percent(profile)} of all time)"


def _about(found: Profile, cause: str, shares: str) -> str:
    """Return what a group is, as sentences without its gain."""
    about = f"{SUBJECTS[cause]} is {shares}"
    operators = pl.DataFrame()
    if cause == PROCESSING:
        operators = found.by("operator", where=_work(found.names) & (pl.col("operator") >= 0))
    if len(operators):
        name, critical = operators["operator"][0], operators["critical"][0]
        return f"{about}, {percent(critical)} in {name!r}."
    return f"{about}. {CAUSES[cause].means}"


def _work(names: Names) -> pl.Expr:
    """Select cells that are work on rows."""
    return ~pl.col("message") & pl.col("kind").is_in(sorted(_kinds(names, PROCESSING)))


def _stragglers(found: Profile) -> Iterator[Suspect]:
    """Return the workers that work much longer than others of the same operator."""
    workers = found.by_worker().filter(
        ~pl.col("worker").is_in(DRIVERS) & (pl.col("critical") >= LEAST)
    )
    ahead = _ahead(found)
    work = _kinds(found.names, PROCESSING)
    numbers = {name: i for i, name in enumerate(found.names.workers)}
    for name, critical, profile in workers.select("worker", "critical", "profile").iter_rows():
        mine = ahead.filter(worker=numbers[name])
        if not len(mine):
            continue
        operator, ns, median, peers = mine.select("operator", "ns", "median", "peers").row(0)
        where = found.names.operators[operator] if operator >= 0 else ""
        yield Suspect(
            cause=STRAGGLING,
            about=f"{name} works {ns / median:.1f} times as long as the median of {peers} workers"
            f"{f' in {where!r}' if where else ''}, and the others wait for it: it is"
            f" {_shares(critical, profile)}.",
            share=critical,
            change=Change(kinds=work, worker=numbers[name], messages=False, evened=True),
            place=Place(worker=name, operator=where),
            evidence=(
                Evidence(name="work of this worker", value=ns / NS, unit="s"),
                Evidence(name="work of the median worker", value=median / NS, unit="s"),
            ),
        )


def _ahead(found: Profile) -> pl.DataFrame:
    """Return workers with far more work than the median of their operator, the largest excess first.

    Columns: operator, worker, ns, median, peers.
    """
    spent = found.cells.filter(_work(found.names)).group_by("operator", "worker").agg(pl.sum("ns"))
    compared = spent.with_columns(
        pl.median("ns").over("operator").alias("median"), pl.len().over("operator").alias("peers")
    )
    excess = pl.col("ns") - pl.col("median")
    return (
        compared.filter((pl.col("peers") > 1) & (pl.col("ns") >= STRAGGLER * pl.col("median")))
        .sort(excess, "operator", descending=[True, False])
        .collect()
    )
