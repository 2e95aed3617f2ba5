"""Findings about joins that shuffle both sides although one of them is small.

The gain counts what the shuffle of the large side costs for certain: writing its blocks, and
waiting for them. Sorting them would be saved, too, but the log does not say how long that takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from rechannel.profiling.diagnosis.case import Case, worth
from rechannel.profiling.diagnosis.plans import THRESHOLD
from rechannel.profiling.diagnosis.words import duration, short
from rechannel.profiling.model.finding import Certainty, Evidence, Finding, Place
from rechannel.profiling.model.words import percent, size
from rechannel.profiling.spark.application import Application, Stage
from rechannel.profiling.spark.rows import FETCHING, TASK_STEPS

SMALL = 64 << 20
"""Bytes of shuffled blocks up to which a side is small enough to be broadcast."""
LARGER = 10
"""How many times as large the other side has to be."""
_WRITING = TASK_STEPS.index("shuffle write")
_JOIN = re.compile(r"^(SortMergeJoin|ShuffledHashJoin)\b")
_OUTER = re.compile(r"\b(LeftOuter|RightOuter|LeftSemi|LeftAnti|ExistenceJoin)\b")


@dataclass(slots=True, kw_only=True)
class Shuffled:
    """What the tasks of a stage did with shuffled blocks."""

    written: int = 0
    """Bytes."""
    work: float = 0.0
    """ns on cores, all of it, that of writing blocks, and that of waiting for them."""
    writing: float = 0.0
    fetching: float = 0.0


def missed_broadcasts(case: Case) -> Iterator[Finding]:
    """Find joins of a small side that could have been broadcast."""
    app = case.app
    joins = [stage for stage in app.stages.values() if stage.submitted and _join(stage)]
    if not joins:
        return
    of, ran = _shuffled(app), {}
    for stage in app.stages.values():
        if stage.submitted and stage.rdd >= 0:
            ran[stage.rdd] = stage
    length = case.run_ms
    for stage in joins:
        found = _missed(app, stage, of, ran)
        if found is not None and worth(found[0], length):
            yield _finding(app, stage, length, *found)


def _join(stage: Stage) -> str:
    """Return the only join of a stage with its arguments; "" without one, or with several."""
    joins = [text for text in stage.details if _JOIN.match(text)]
    return joins[0] if len(joins) == 1 and "FullOuter" not in joins[0] else ""


def _missed(
    app: Application, stage: Stage, of: Mapping[int, Shuffled], ran: Mapping[int, Stage]
) -> tuple[float, int, int] | None:
    """Return the ms that a broadcast would save, and the bytes of both sides; None if it would not
    be possible.
    """
    sides = []
    for parent in stage.parents:
        known = app.stages.get((parent, 0))
        if known is not None and not known.submitted:
            known = ran.get(known.rdd)
        if known is not None and known.number in of:
            sides.append((of[known.number].written, known))
    if len(sides) != 2 or len(stage.parents) != 2:
        return None
    (small, _), (large, source) = sorted(sides, key=lambda side: side[0])
    if small > SMALL or large < LARGER * small or not small or stage.number not in of:
        return None
    writes, reads = of[source.number], of[stage.number]
    saved = (source.completed - source.submitted) * writes.writing / max(1.0, writes.work)
    saved += (stage.completed - stage.submitted) * reads.fetching / max(1.0, reads.work)
    return saved, small, large


def _shuffled(app: Application) -> Mapping[int, Shuffled]:
    """Return what stages shuffled. One pass over all tasks."""
    found: dict[int, Shuffled] = {}
    for rows in app.tasks.close().each():
        good = rows[rows["good"]]
        stages, place = np.unique(good["stage"], return_inverse=True)
        columns = [
            np.bincount(place, weights=column, minlength=len(stages)).tolist()
            for column in (
                good["write_bytes"],
                good["steps"].sum(axis=1),
                good["steps"][:, _WRITING],
                good["steps"][:, FETCHING],
            )
        ]
        for stage, written, work, writing, fetching in zip(stages.tolist(), *columns, strict=True):
            known = found.setdefault(stage, Shuffled())
            known.written += int(written)
            known.work += work
            known.writing += writing
            known.fetching += fetching
    return found


def _finding(
    app: Application, stage: Stage, length: float, saved: float, small: int, large: int
) -> Finding:
    share = min(1.0, saved / length)
    join = _join(stage)
    outer = _OUTER.search(join)
    which = f" {outer[1]} joins can broadcast only one of their sides." if outer else ""
    return Finding(
        cause="missed-broadcast",
        text=f"Stage {stage.number} joins {size(large)} with only {size(small)}, and both sides are"
        f" shuffled for that ({short(join)}). Without the shuffle of the large side the run would"
        f" be at least {duration(saved)} ({percent(share)}) shorter.{which}",
        advice=f"Broadcast the small side: use the hint `broadcast`, or raise `{THRESHOLD}`"
        f" (now {app.settings.get(THRESHOLD, '10MB')}) above its size in memory, which may be"
        " several times its size on disk.",
        gain=share,
        seconds=saved / 1_000,
        certainty=Certainty.POSSIBLE,
        place=Place(stage=stage.number, attempt=stage.attempt, execution=stage.execution),
        evidence=(
            Evidence(name="small side", value=small, unit="B"),
            Evidence(name="large side", value=large, unit="B"),
        ),
    )
