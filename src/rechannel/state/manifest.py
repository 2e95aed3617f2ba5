"""The manifest: which runs make up the state of an operator, as a value.

Beside its state an operator may keep *totals*: what follows from the state, so that it need not be made of all of it
again. They are runs with columns of their own and a level below 0; nothing is lost where they are.

A *run* is one segment clipped to hash intervals. For one hash, the run with the highest `seq` that holds it wins;
runs of one `seq` hold other hashes, or other keys of a hash that has more rows than one file can take. Who
reads a run is not written here: a task reads every run that meets the intervals it owns. Moving a bin therefore changes
the routing table and nothing else, and the size of a manifest follows tasks, runs and moved bins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rechannel.model.codec import Json, form
from rechannel.model.hashspace import SPACE, Intervals, spans_from_json, spans_to_json

TOTALS, CHANGES = -1, -2
"""Levels of runs that hold no state: totals, and what has changed of them since. Their seqs are negative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One segment, clipped.

    segment: key of the segment's file in the store.
    clip: the hashes for which this run still counts.
    seq: recency; for any hash, runs that hold it have different seq and the highest wins.
    level: how many merges its rows went through (0 = written by a timestep); below 0: see `TOTALS`.
    rows, size: rows and bytes of the whole segment, before clipping.
    span: width of the intervals the segment was written for; rows are spread evenly over it (hashes are uniform).
    due: first event time that a row of the segment waits for (the end of time if none does), and the last one that a
    row waits for or, for the sake of others, is there for; None = rows are there whatever the time.
    awaited: the last event time that a row waits for; None = the last one of `due`.
    digest: of the segment's content; None = not known, as in journals of before.
    """

    segment: str
    clip: Intervals
    seq: int
    level: int
    rows: int
    size: int
    span: int
    due: tuple[int, int] | None = None
    awaited: int | None = None
    digest: str | None = None

    def waits(self, after: int, until: int) -> bool:
        """Whether a row may wait for an event time in (after, until]."""
        if self.due is None:
            return False
        return (
            self.due[0] <= until and (self.due[1] if self.awaited is None else self.awaited) > after
        )

    @property
    def expected(self) -> float:
        """Expected number of rows where it counts."""
        width = self.clip.width
        return self.rows if width == self.span else self.rows * width / self.span

    def rows_in(self, where: Intervals) -> float:
        """Expected number of rows in the given hashes."""
        return self.rows * self.clip.intersect(where).width / self.span if self.span else 0.0


def _as_row(run: Run) -> Json:
    """Write a run as a list, its whole clip as null and the last members only where they are known."""
    whole = run.clip.spans == ((0, SPACE),)
    return [
        run.segment,
        None if whole else spans_to_json(run.clip),
        run.seq,
        run.level,
        run.rows,
        run.size,
        str(run.span),
        *_optional(run),
    ]


def _optional(run: Run) -> list[Json]:
    due = None
    if run.due is not None:
        due = [*run.due, *([] if run.awaited is None else [run.awaited])]
    if run.digest is not None:
        return [due, run.digest]
    return [] if due is None else [due]


def _from_row(data: Json) -> Run:
    segment, clip, seq, level, rows, size, span, *more = data
    due, digest = (*more, None, None)[:2]
    return Run(
        segment=segment,
        clip=Intervals.everything() if clip is None else spans_from_json(clip),
        seq=seq,
        level=level,
        rows=rows,
        size=size,
        span=int(span),
        due=(due[0], due[1]) if due else None,
        awaited=due[2] if due and len(due) > 2 else None,
        digest=digest,
    )


form(Run, encode=_as_row, decode=_from_row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What one timestep changes in a manifest.

    retire: (seqs, intervals): in these hashes, runs with these seq stop counting (they were merged).
    add: new runs.
    """

    retire: tuple[tuple[tuple[int, ...], Intervals], ...] = ()
    add: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """The live state of one operator at one timestep: runs, newest first."""

    runs: tuple[Run, ...] = ()

    def apply(self, edit: Edit) -> Manifest:
        """The manifest after one timestep. Runs with nothing left to say are dropped."""
        kept = list(self.runs)
        for seqs, where in edit.retire:
            gone = set(seqs)
            kept = [
                replace(run, clip=run.clip.subtract(where)) if run.seq in gone else run
                for run in kept
            ]
        runs = [run for run in kept if run.clip] + list(edit.add)
        return Manifest(tuple(sorted(runs, key=lambda run: -run.seq)))

    @property
    def state(self) -> tuple[Run, ...]:
        """Runs that hold state, newest first."""
        return tuple(run for run in self.runs if run.level >= 0)

    def within(self, where: Intervals) -> tuple[Run, ...]:
        """Runs of state that meet the given hashes, clipped to them, newest first."""
        return _clipped(self.state, where)

    def totals(self, where: Intervals) -> tuple[Run, ...]:
        """Runs of totals that meet the given hashes, clipped to them."""
        return _clipped((run for run in self.runs if run.level < 0), where)

    def segments(self) -> set[str]:
        """Keys of all segments that count."""
        return {run.segment for run in self.runs}


def _clipped(runs: Iterable[Run], where: Intervals) -> tuple[Run, ...]:
    out = []
    for run in runs:
        if run.clip.spans == where.spans:
            out.append(run)
        elif clip := run.clip.intersect(where):
            out.append(replace(run, clip=clip))
    return tuple(out)
