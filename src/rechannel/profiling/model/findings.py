"""What any profile says in words: what is on the critical path, and which worker straggles.

These findings need nothing but a trace. Kinds of activity are grouped into `CAUSES`. No work, message
or plan takes no time at all, so the gain of a group is what half of its time would gain. A worker
straggles if its work takes `STRAGGLER` times as long as that of the median worker of the same
operator; its gain is what the median would gain. Where all workers have as much to do, none
straggles, and neither does one of two that are equally slow. Work on rows has no gain of its own
while it is on the path because of a straggler.

What is known of an application beyond its trace is in `diagnosis/`, whose findings come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from rechannel.profiling.model.finding import Certainty, Evidence, Finding, Place, ordered
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

IF_HALF = " If it took half the time,"
HALF = 0.5
"""What is left of the time of a group whose gain is computed."""

SCHEDULING, COMMUNICATION, PROCESSING = "scheduling", "communication", "processing"
PROGRAM, NOTHING, STRAGGLING, IDLE = "driver-program", "nothing-known", "straggler", "idle"
CAUSES: Mapping[str, tuple[str, ...]] = {
    SCHEDULING: (SCHEDULING, "batch planning", "planning", CONTROL),
    IDLE: (IDLE,),
    COMMUNICATION: (
        *(DATA, "fetch wait", "shuffle write", "buffer", "input"),
        *("receive", "send", "fetch", "outbox"),
    ),
    PROGRAM: (
        *("driver program", "commit", "release", "publish", "starting up", "waiting for executors"),
        *("waiting for a copy", "broadcast building", "collecting results", "listing files"),
    ),
    NOTHING: (UNKNOWN,),
}
"""Kinds of activity by what they indicate; all other kinds are work on rows."""

DRIVERS = ("driver", "publisher")
"""Workers without rows that could be split or moved."""

ABOUT: Mapping[str, str] = {
    SCHEDULING: "Planning, starting and ending tasks is {share}.",
    COMMUNICATION: "Communication is {share}: rows wait for the network or the disk between stages.",
    PROCESSING: "Work on rows is {share}.",
    PROGRAM: "Code on the driver is {share}: workers wait for it between jobs.",
    IDLE: "The stream waits for input or its next trigger: that is {share}.",
    NOTHING: "The trace does not say what happened in {share}.",
}
"""The first sentence, by cause."""
ADVICE: Mapping[str, str] = {
    SCHEDULING: "Make batches larger or use fewer partitions: tasks do too little work for what they cost to start.",
    COMMUNICATION: "Send less (combine before the shuffle, select columns), or put the stages that exchange the most"
    " on one host.",
    PROCESSING: "Make that part cheaper, or give it more tasks if cores are idle.",
    PROGRAM: "Look at what the driver does between jobs: planning, commits, sinks, or the program itself.",
    IDLE: "Nothing needs to change: the stream keeps up with its input.",
    NOTHING: "Trace more, or look at what the workers waited for.",
    STRAGGLING: "Split or move its hot keys, spread its tasks, or check its machine.",
}
"""What to change, by cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """What may be a finding, before its gain is known."""

    cause: str
    """One of `CAUSES`, or processing, or straggler."""
    about: str
    """The first sentence."""
    share: float
    """Share of the critical path."""
    change: Change
    """What the gain is computed for."""
    place: Place = field(default_factory=Place)
    evidence: tuple[Evidence, ...] = ()


def cause_of(kind: str) -> str:
    """Return the cause that a kind of activity indicates."""
    return next((cause for cause, kinds in CAUSES.items() if kind in kinds), PROCESSING)


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
            change=Change(kinds=_kinds(found.names, cause), left=HALF),
        )
        for cause, critical, profile in sums.iter_rows()
        if critical >= LEADS
    ]
    return [*groups, *_stragglers(found)]


def findings(found: Sequence[Suspect], gains: Sequence[int], length: int) -> list[Finding]:
    """Return the findings among some suspects, in the order of a report.

    gains: of every suspect, ns. length: of the run, ns.
    """
    told = [
        _finding(suspect, gain, gain / max(1, length))
        for suspect, gain in zip(found, gains, strict=True)
    ]
    kept = [each for each in told if each.cause != STRAGGLING or (each.gain or 0.0) >= LEAST]
    if any(each.cause == STRAGGLING and each.weighty for each in kept):
        kept = [replace(e, gain=None, seconds=None) if e.cause == PROCESSING else e for e in kept]
    return ordered(kept)


def merged(diagnosed: Sequence[Finding], general: Sequence[Finding]) -> list[Finding]:
    """Return the findings of a diagnosis, and then what the trace alone says.

    The diagnosis knows what mending a cause gains, so half the time of a group does not compete
    with that. It knows the tasks, too: if it names a cause of weight, the worker on which many of
    them ran is not named again, and neither is the driver as a whole.
    """
    explained = any(each.weighty for each in diagnosed)
    said = {each.cause for each in diagnosed} | ({STRAGGLING, PROGRAM} if explained else set())
    rest = [
        each if each.cause == STRAGGLING else _without_gain(each)
        for each in general
        if each.cause not in said
    ]
    return ordered([*diagnosed, *rest])


def _without_gain(found: Finding) -> Finding:
    return replace(found, gain=None, seconds=None, text=found.text.partition(IF_HALF)[0])


def _finding(suspect: Suspect, gain: int, share: float) -> Finding:
    """Return a suspect as a finding. gain: ns, and as a share of the run."""
    cause, text, certainty = suspect.cause, suspect.about, Certainty.LIKELY
    won: tuple[float | None, float | None] = (share, gain / NS)
    shorter = f"{percent(share)} ({seconds(gain / NS)}) shorter"
    if cause == STRAGGLING:
        text += f" If it had as much to do as the median worker, the run would be {shorter}."
    elif cause == NOTHING:
        won, certainty = (None, None), Certainty.CERTAIN
    elif cause == IDLE:
        won, certainty = (0.0, 0.0), Certainty.CERTAIN
    else:
        text += f"{IF_HALF} the run would be {shorter}."
    return Finding(
        cause=cause,
        text=text,
        advice=ADVICE[cause],
        gain=won[0],
        seconds=won[1],
        certainty=certainty,
        place=suspect.place,
        evidence=suspect.evidence,
        share=suspect.share,
    )


def _kinds(names: Names, cause: str) -> frozenset[int]:
    """Return the kinds of activity that indicate a cause."""
    return frozenset(i for i, name in enumerate(names.kinds) if cause_of(name) == cause)


def _shares(critical: float, profile: float) -> str:
    return f"{percent(critical)} of the critical path ({percent(profile)} of all time)"


def _about(found: Profile, cause: str, shares: str) -> str:
    """Return the first sentence about a cause."""
    about = ABOUT[cause].format(share=shares)
    if cause != PROCESSING:
        return about
    operators = found.by("operator", where=_work(found.names) & (pl.col("operator") >= 0))
    if not len(operators):
        return about
    name, critical = operators["operator"][0], operators["critical"][0]
    return f"{about.removesuffix('.')}, {percent(critical)} in {name!r}."


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
