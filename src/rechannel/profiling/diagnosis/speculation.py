"""What speculative copies of tasks cost, and what they won.

Mended, each task ran once, for as long as its shortest successful attempt did.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from rechannel.profiling.diagnosis.case import Case, Gain
from rechannel.profiling.diagnosis.change import Change
from rechannel.profiling.diagnosis.schedule import Durations
from rechannel.profiling.diagnosis.task_table import COPY, StageKey
from rechannel.profiling.diagnosis.words import duration
from rechannel.profiling.model.finding import Certainty, Evidence, Finding, Place
from rechannel.profiling.model.trace import MS
from rechannel.profiling.model.words import counted
from rechannel.profiling.storage.blocks import Rows


@dataclass(slots=True, eq=False)
class _Copies:
    """Speculative attempts."""

    copies: int = 0
    won: int = 0
    lost_ms: float = 0.0
    """What copies took that were not needed."""
    beaten_ms: float = 0.0
    """What originals took that copies overtook."""
    origins: dict[int, int] = field(default_factory=dict)
    """Number of overtaken originals by executor."""
    mended: dict[StageKey, Durations] = field(default_factory=dict)

    def take(self, key: StageKey, rows: Rows) -> None:
        """Take up the tasks of a stage. Of several attempts that succeeded, the shortest counts."""
        took = (rows["finish"] - rows["launch"]) / MS
        order = np.lexsort((took, ~rows["good"], rows["index"]))
        _, firsts = np.unique(rows["index"][order], return_index=True)
        best = np.zeros(len(rows), dtype=np.bool_)
        best[order[firsts]] = rows["good"][order[firsts]]
        copy = rows["speculative"]
        beaten = ~copy & np.isin(rows["index"], rows["index"][best & copy])
        self.copies += int(copy.sum())
        self.won += int((best & copy).sum())
        self.lost_ms += float(took[copy & ~best].sum())
        self.beaten_ms += float(took[beaten].sum())
        for executor in rows["executor"][beaten].tolist():
            self.origins[executor] = self.origins.get(executor, 0) + 1
        chosen = np.flatnonzero(best)
        chosen = chosen[np.argsort(rows["launch"][chosen], kind="stable")]
        self.mended[key] = took[chosen].astype(np.float32)


def speculation(case: Case) -> Iterator[Finding]:
    """Find out what speculative copies of tasks cost, and what they won.

    Silent: without copies.
    """
    seen = _Copies()
    for family in case.families:
        for key in family.stages:
            if case.flagged(key, COPY).any():
                seen.take(key, case.rows(key))
    if not seen.copies:
        return
    gain = case.gain(Change(durations=seen.mended))
    if case.worth(gain):
        yield _speculated(case, seen, gain)


def _speculated(case: Case, seen: _Copies, gain: Gain) -> Finding:
    key = max(seen.mended, key=lambda one: len(seen.mended[one]))
    useful = seen.won >= seen.copies / 2
    text = (
        f"Spark ran {counted(seen.copies, 'speculative copy', 'speculative copies')} of tasks, and {seen.won}"
        " overtook the original."
    )
    if seen.beaten_ms:
        text += f" Originals that were overtaken had run for {duration(seen.beaten_ms)}{_where(case, seen)}."
    if seen.lost_ms:
        text += f" Copies that were not needed ran for {duration(seen.lost_ms)}."
    advice = (
        "Find out why these originals hang: the host, its disks, or a service that tasks call. Until then, lower"
        " `spark.speculation.multiplier` and `spark.speculation.quantile`, so that copies start earlier."
        if useful
        else "Raise `spark.speculation.multiplier`, or set `spark.speculation` to false: most copies were in vain,"
        " because tasks have different amounts of work."
    )
    return Finding(
        cause="speculation",
        text=text,
        advice=advice,
        gain=gain.share,
        seconds=gain.seconds,
        certainty=Certainty.LIKELY,
        place=Place(stage=key[0], attempt=key[1], job=case.job_of(key)),
        evidence=(
            Evidence(name="copies", value=seen.copies),
            Evidence(name="copies that won", value=seen.won),
            Evidence(name="time of overtaken originals", value=seen.beaten_ms / 1_000, unit="s"),
            Evidence(name="time of copies in vain", value=seen.lost_ms / 1_000, unit="s"),
        ),
    )


def _where(case: Case, seen: _Copies) -> str:
    """Return where most originals that were overtaken ran, if most of them ran on one executor."""
    worst = max(seen.origins, key=lambda one: seen.origins[one])
    if seen.origins[worst] <= sum(seen.origins.values()) / 2:
        return ""
    names = {number: name for name, number in case.app.tasks.executors.items()}
    executor = case.app.executors.get(names[worst])
    at = f" on host {executor.host}" if executor and executor.host else ""
    return f", {seen.origins[worst]} of them on executor {names[worst]}{at}"
