"""A run: one segment, clipped to the hashes for which it counts, as a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rechannel.model.codec import Json, form
from rechannel.model.hashspace import SPACE, Intervals, spans_from_json, spans_to_json

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

    def __reduce__(self) -> tuple[Callable[..., Run], tuple[Any, ...]]:
        """Pickle as a list of plain values: tasks are sent many runs."""
        fields = (
            self.segment,
            self.clip.spans,
            self.seq,
            self.level,
            self.rows,
            self.size,
            self.span,
            self.due,
            self.awaited,
            self.digest,
            self.processing,
        )
        return _unpickled, (fields,)

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


def _unpickled(fields: tuple[Any, ...]) -> Run:
    segment, spans, seq, level, rows, size, span, due, awaited, digest, processing = fields
    return Run(
        segment=segment,
        clip=Intervals(spans),
        seq=seq,
        level=level,
        rows=rows,
        size=size,
        span=span,
        due=due,
        awaited=awaited,
        digest=digest,
        processing=processing,
    )


def run_to_json(run: Run) -> Json:
    """Return a run as a list: a whole clip as null, and the last members only if they are known."""
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


def run_from_json(data: Json) -> Run:
    """Invert `run_to_json`."""
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


form(Run, encode=run_to_json, decode=run_from_json)
