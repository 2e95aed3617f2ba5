"""The manifest: which runs make up the state of an operator, as a value.

Besides its state, an operator may keep *totals*: values derived from the state, kept so that they
need not be computed from all of it again. Totals are runs with columns of their own and a level
below 0; if they are missing, nothing is lost.

A *run* is one segment clipped to hash intervals. For one hash, the run with the highest `seq` that
contains it wins; runs with the same `seq` contain different hashes, or different keys of a hash
that has more rows than fit into one file. The manifest does not say who reads a run: a task reads
every run that meets the intervals it owns. Moving a bin therefore changes the routing table and
nothing else, and the size of a manifest depends on tasks, runs and moved bins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rechannel.model.codec import Json, form
from rechannel.model.hashspace import SPACE, Intervals, spans_from_json, spans_to_json
from rechannel.model.routing import Routing

TOTALS, CHANGES = -1, -2
"""Levels of runs that hold no state: totals, and changes to them since. Their seqs are negative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One segment, clipped."""

    segment: str
    """Key of the segment's file in the store."""
    clip: Intervals
    """The hashes for which this run still counts."""
    seq: int
    """Recency: of all runs that contain a hash, the one with the highest seq wins."""
    level: int
    """How many merges its rows went through (0 = written by a timestep); below 0, see `TOTALS`."""
    rows: int
    """Rows of the whole segment, before clipping."""
    size: int
    """Bytes of the whole segment, before clipping."""
    span: int
    """Width of the intervals for which the segment was written. Rows are spread evenly over it,
    since hashes are uniform.
    """
    due: tuple[int, int] | None = None
    """First event time for which a row of the segment has a timer (the end of time if none has),
    and the last one for which a row has a timer or is kept for other rows. None if rows are
    kept whatever the time.
    """
    awaited: int | None = None
    """Last event time for which a row has a timer; None if it is the last one of `due`."""
    digest: str | None = None
    """Digest of the segment's content; None if unknown, as in older journals."""
    processing: tuple[int, int] | None = None
    """First and last processing time for which a row of the segment has a timer, beside timers of event time; None if
    none has.
    """

    def rings(self, after: int, until: int) -> bool:
        """Return whether a row may have a timer for a processing time in (after, until], beside those of event time."""
        return (
            self.processing is not None
            and self.processing[0] <= until
            and self.processing[1] > after
        )

    def waits(self, after: int, until: int) -> bool:
        """Return whether a row may have a timer for an event time in (after, until]."""
        return self.due is not None and self.due[0] <= until and self.last_awaited > after

    @property
    def last_awaited(self) -> int:
        """Last event time for which a row has a timer. Raises ValueError without `due`."""
        if self.due is None:
            msg = f"rows of {self.segment} wait for no time"
            raise ValueError(msg)
        return self.due[1] if self.awaited is None else self.awaited

    @property
    def expected(self) -> float:
        """Expected number of rows where the run counts."""
        width = self.clip.width
        return self.rows if width == self.span else self.rows * width / self.span

    @property
    def expected_bytes(self) -> float:
        """Expected bytes where the run counts."""
        return self.size * self.clip.width / self.span if self.span else 0.0

    def rows_in(self, where: Intervals) -> float:
        """Return the expected number of rows in the given hashes."""
        return self.rows * self.clip.intersect(where).width / self.span if self.span else 0.0


def _as_row(run: Run) -> Json:
    """Write a run as a list: a whole clip as null, and the last members only if they are known."""
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
    due: list[Json] | None = None
    if run.due is not None:
        due = [*run.due, *([] if run.awaited is None else [run.awaited])]
    if run.processing is not None:
        due = [*(run.due or (None, None)), run.awaited, *run.processing]
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
        due=(due[0], due[1]) if due and due[0] is not None else None,
        awaited=due[2] if due and len(due) > 2 else None,
        processing=(due[3], due[4]) if due and len(due) > 4 else None,
        digest=digest,
    )


form(Run, encode=_as_row, decode=_from_row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What one timestep changes in a manifest."""

    retire: tuple[tuple[tuple[int, ...], Intervals], ...] = ()
    """Pairs (seqs, intervals): in these hashes, runs with these seqs no longer count, because they
    were merged.
    """
    add: tuple[Run, ...] = ()
    """New runs."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The live state of one operator at one timestep: runs, newest first."""

    runs: tuple[Run, ...] = ()

    def apply(self, edit: Edit) -> Manifest:
        """Return the manifest after one timestep. Runs that no longer count anywhere are dropped."""
        gone = _retired(edit)
        kept = (_without(run, gone[run.seq]) if run.seq in gone else run for run in self.runs)
        runs = [run for run in kept if run.clip] + list(edit.add)
        return Manifest(tuple(sorted(runs, key=lambda run: -run.seq)))

    @property
    def state(self) -> tuple[Run, ...]:
        """Runs that hold state, newest first."""
        return tuple(run for run in self.runs if run.level >= 0)

    @property
    def no_state(self) -> tuple[Run, ...]:
        """Runs that hold totals, or changes to them."""
        return tuple(run for run in self.runs if run.level < 0)

    def within(self, where: Intervals) -> tuple[Run, ...]:
        """Return the runs of state that meet the given hashes, clipped to them, newest first."""
        return _clipped(self.state, where)

    def totals(self, where: Intervals) -> tuple[Run, ...]:
        """Return the runs of totals that meet the given hashes, clipped to them."""
        return _clipped(self.no_state, where)

    def by_task(self, routing: Routing) -> list[Manifest]:
        """Return what each task reads: every run that meets the hashes that it owns, clipped to them."""
        parts: list[list[Run]] = [[] for _ in range(routing.tasks)]
        for run in self.runs:
            for task in routing.tasks_in(run.clip):
                parts[task] += _clipped((run,), routing.intervals_of(task))
        return [Manifest(tuple(part)) for part in parts]

    def segments(self) -> set[str]:
        """Return the keys of all segments that count."""
        return {run.segment for run in self.runs}


def _retired(edit: Edit) -> dict[int, Intervals]:
    """Return, by seq, the hashes in which an edit retires runs: so that each run is looked at once."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for seqs, where in edit.retire:
        for seq in seqs:
            spans.setdefault(seq, []).extend(where.spans)
    return {seq: Intervals.of(each) for seq, each in spans.items()}


def _without(run: Run, where: Intervals) -> Run:
    left = run.clip.subtract(where)
    return run if left is run.clip else replace(run, clip=left)


def _clipped(runs: Iterable[Run], where: Intervals) -> tuple[Run, ...]:
    out = []
    for run in runs:
        if run.clip.spans == where.spans:
            out.append(run)
        elif clip := run.clip.intersect(where):
            out.append(replace(run, clip=clip))
    return tuple(out)
