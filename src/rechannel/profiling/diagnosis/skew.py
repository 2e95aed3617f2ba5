"""Tasks that take many times as long as the others of their stage: because they have more data, or without a reason in
the data.

Mended, the time that long tasks take beyond the others is spread evenly over the tasks of the
stage. A long task without more data is as fast as the others then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rechannel.profiling.diagnosis.case import Case, Family, Gain
from rechannel.profiling.diagnosis.change import Change
from rechannel.profiling.diagnosis.schedule import Durations
from rechannel.profiling.diagnosis.stage_names import JOINED, Keyed, alike, called, keyed, place_of
from rechannel.profiling.diagnosis.task_table import StageKey
from rechannel.profiling.diagnosis.words import duration
from rechannel.profiling.model.finding import Certainty, Evidence, Finding
from rechannel.profiling.model.trace import MS
from rechannel.profiling.model.words import percent, size
from rechannel.profiling.storage.blocks import Rows

LONG = 3.0
"""How many times as long as the median of the others the longest task of a skewed stage is, at least."""
LONG_BY_DATA = 2.0
"""The same, if it reads `MORE_DATA` times as many bytes: of few tasks, none is many times as long as the others."""
ABOVE = 1.7
"""How many times as long as the median a task is, at least, whose excess is spread."""
LEAST_MS = 500
"""Smallest difference between the longest task and the median of the others, ms."""
MORE_DATA = 2.0
"""How many times as much data as the median of the others a long task has, at least, if that is why it is long."""
SAME_DATA = 1.3
"""How many times as much data it has, at most, if that is not why."""
LEAST_WRITTEN = 1_000.0
"""Rows that a task writes at least, if a multiple of them is why it is long. A few more are no reason."""
LOOKED_AT = 100
"""Stages of a family whose long tasks are looked at, at most, the longest ones."""
COMPARED = 8
"""Tasks of a stage, at least, of which one is slow without a reason in its data."""
FEW = 0.05
"""Share of the tasks of a stage that may be long, at most, if it is not their data."""


def skew(case: Case) -> Iterator[Finding]:
    """Find stages with tasks that are much longer than the others.

    Silent: in streams, whose batches have findings of their own; if the longest task takes less than
    `LONG` times the median of the others (`LONG_BY_DATA` if it reads more), or less than `LEAST_MS`
    more. If a long task has no more data: if an executor is slow, if the stage has fewer than
    `COMPARED` tasks, or if some failed.
    """
    for family in case.families:
        if case.streams(family):
            continue
        seen = _long(case, family)
        larger = {key: one for key, one in seen.items() if _by_data(case, key, one)}
        if larger:
            # Other stages of the family have long tasks that no split of their data would mend.
            gain = case.gain(Change(durations={key: evened(case, key) for key in larger}))
            if case.worth(gain):
                yield _skewed(case, larger, gain)
        elif seen:
            worst = _worst(case, seen)
            one = seen[worst]
            if one.data > SAME_DATA or not one.few or one.slow_executor:
                continue
            gain = case.gain(Change(durations={worst: shortened(case, worst)}))
            if case.worth(gain):
                yield _slow(case, worst, one, gain)


def _long(case: Case, family: Family) -> dict[StageKey, _Long]:
    """Return the longest stages of a family with a long task, `LOOKED_AT` at most, with that task."""
    found: dict[StageKey, _Long] = {}
    for key in family.stages:
        if len(found) < LOOKED_AT and _typical(case, key) is not None:
            one = _Long.of(case.rows(key))
            if one is not None:
                found[key] = one
    return found


def by_data(case: Case, family: Family) -> list[StageKey]:
    """Return the stages of a family whose longest task is that long because of its data."""
    return [key for key, one in _long(case, family).items() if _by_data(case, key, one)]


def _by_data(case: Case, key: StageKey, seen: _Long) -> bool:
    """Return whether its data is why a task is long: it has more of it, or a join makes far more rows of
    what it reads, as of keys that are frequent on both sides.
    """
    if seen.data >= MORE_DATA:
        return True
    node = keyed(case.app.stages.get(key))
    joins = node is not None and node.what == JOINED
    return joins and seen.data > SAME_DATA and seen.cpu >= LONG


def _worst(case: Case, keys: Iterable[StageKey]) -> StageKey:
    """Return the stage whose longest task exceeds the others by most."""
    return max(keys, key=lambda key: excess(case, key))


def evened(case: Case, key: StageKey) -> Durations:
    """Return what the tasks of a stage take if the excess of long ones is spread evenly."""
    took = case.durations(key)
    typical = _typical(case, key)
    if typical is None:
        return took
    long = took > ABOVE * typical
    over = float((took[long] - typical).sum())
    found: Durations = (np.where(long, typical, took) + over / len(took)).astype(np.float32)
    return found


def shortened(case: Case, key: StageKey) -> Durations:
    """Return what the tasks of a stage take if none takes longer than the median."""
    took = case.durations(key)
    typical = _typical(case, key)
    return took if typical is None else np.where(took > ABOVE * typical, typical, took)


def excess(case: Case, key: StageKey) -> float:
    """Return how much longer the longest task of a stage takes than the median of the others, ms."""
    good = case.good(key)
    return float(good.max() - _others(good)) if len(good) > 1 else 0.0


def _typical(case: Case, key: StageKey) -> float | None:
    """Return the median of all but the longest task; None if that is not much longer."""
    good = case.good(key)
    if len(good) < 2:
        return None
    median, longest = _others(good), float(good.max())
    if longest < LONG_BY_DATA * median or longest - median < LEAST_MS:
        return None
    if longest < LONG * median:
        read = case.read(key)
        if read[good.argmax()] < MORE_DATA * max(1.0, _others(read)):
            return None
    return median


def _others(values: npt.NDArray[np.generic]) -> float:
    """Return the median of all but the largest value."""
    return float(np.median(np.partition(values, -1)[:-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Long:
    """The longest task of a stage, compared with the median of the others."""

    tasks: int
    index: int
    took: float
    """ms."""
    median: float
    moved: float
    """Bytes that it read."""
    median_moved: float
    rows: float
    median_rows: float
    wrote: float
    median_wrote: float
    """Rows that it wrote, to files or for a shuffle."""
    few: bool
    """Whether hardly any other task is long, of enough that all succeeded at once."""
    slow_executor: bool
    """Whether other tasks of its executor are slow, too."""
    spilled: float
    shuffled: bool
    cpu: float
    """How many times as much CPU time it used."""

    @classmethod
    def of(cls, rows: Rows) -> _Long | None:
        good = rows[rows["good"]]
        if len(good) < 2:
            return None
        took = (good["finish"] - good["launch"]) / MS
        at, median = int(took.argmax()), _others(took)
        moved = good["in_bytes"] + good["read_bytes"]
        counts = good["in_rows"] + good["read_rows"]
        wrote = good["out_rows"] + good["write_rows"]
        mine = good["executor"] == good["executor"][at]
        mine[at] = False
        here, there = took[mine], took[good["executor"] != good["executor"][at]]
        return cls(
            tasks=len(good),
            index=int(good["index"][at]),
            took=float(took[at]),
            median=median,
            moved=float(moved[at]),
            median_moved=_others(moved),
            rows=float(counts[at]),
            median_rows=_others(counts),
            wrote=float(wrote[at]),
            median_wrote=_others(wrote),
            few=bool(
                (took > ABOVE * median).sum() <= max(1, FEW * len(good))
                and len(good) == len(rows) >= COMPARED
            ),
            slow_executor=bool(
                len(here) and len(there) and np.median(here) > 1.5 * np.median(there)
            ),
            spilled=float(good["spill_disk"][at]),
            shuffled=bool(good["read_bytes"][at] > good["in_bytes"][at]),
            cpu=float(good["cpu"][at] / max(1.0, _others(good["cpu"]))),
        )

    @property
    def data(self) -> float:
        """How many times as many bytes or rows it read or wrote, whichever is more."""
        return max(
            self.moved / max(1.0, self.median_moved),
            self.rows / max(1.0, self.median_rows),
            self.wrote / max(LEAST_WRITTEN, self.median_wrote),
        )

    @property
    def why(self) -> str:
        """What it has more of than the others: bytes that it reads, or else rows, or rows that it writes;
        or else rows that a join makes.
        """
        if self.moved >= MORE_DATA * max(1.0, self.median_moved):
            return f"reads {size(self.moved)} instead of {size(self.median_moved)}"
        if self.rows >= MORE_DATA * max(1.0, self.median_rows):
            return f"reads {self.rows:,.0f} rows instead of {self.median_rows:,.0f}"
        if self.wrote >= MORE_DATA * max(LEAST_WRITTEN, self.median_wrote):
            return f"writes {self.wrote:,.0f} rows instead of {self.median_wrote:,.0f}"
        return (
            f"reads {self.rows:,.0f} rows instead of {self.median_rows:,.0f}, and the join makes so many rows of them"
            f" that it takes {self.cpu:.1f} times the CPU time"
        )

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return (
            Evidence(name="longest task", value=self.took / 1_000, unit="s"),
            Evidence(name="median of the others", value=self.median / 1_000, unit="s"),
            Evidence(name="ratio", value=self.took / max(1.0, self.median), unit="x"),
            Evidence(name="read by the longest task", value=self.moved, unit="B"),
            Evidence(name="read by the median of the others", value=self.median_moved, unit="B"),
            Evidence(name="rows of the longest task", value=self.rows, unit="rows"),
            Evidence(name="rows of the median of the others", value=self.median_rows, unit="rows"),
            Evidence(name="rows that the longest task wrote", value=self.wrote, unit="rows"),
            Evidence(name="rows that the median wrote", value=self.median_wrote, unit="rows"),
            Evidence(name="spilled by the longest task", value=self.spilled, unit="B"),
        )


def _spends(case: Case, key: StageKey, seen: _Long, like: str = "") -> str:
    """Return the first sentence of a finding. like: how many other stages there are like it."""
    share = min(1.0, seen.took / 1_000 / case.length)
    times = seen.took / max(1.0, seen.median)
    return (
        f"{called(case, key)}{like} spends {percent(share)} of the run in one of its"
        f" {seen.tasks} tasks: task {seen.index} takes {duration(seen.took)}, {times:.1f} times the"
        f" median of the others ({duration(seen.median)})"
    )


def _skewed(case: Case, larger: Mapping[StageKey, _Long], gain: Gain) -> Finding:
    key = _worst(case, larger)
    seen = larger[key]
    node = keyed(case.app.stages.get(key)) if seen.shuffled else None
    return Finding(
        cause="skew",
        text=f"{_spends(case, key, seen, alike(larger))}, because it {seen.why}.",
        advice=_advice(case, node, shuffled=seen.shuffled),
        gain=gain.share,
        seconds=gain.seconds,
        certainty=Certainty.LIKELY,
        place=place_of(case, key),
        evidence=seen.evidence,
    )


def _advice(case: Case, node: Keyed | None, *, shuffled: bool) -> str:
    """Return what to change, by what brings the rows together."""
    if not shuffled:
        return (
            "Cut the input into even parts: repartition it after reading, lower"
            " `spark.sql.files.maxPartitionBytes`, or write it as files of equal size that can be split."
        )
    if node is None:
        return "Spread the keys that have the most rows: add a random part to the key, and combine in two steps."
    if node.what == JOINED:
        adaptive = case.app.settings.get("spark.sql.adaptive.enabled", "true") == "true"
        switch = "lower" if adaptive else "set `spark.sql.adaptive.enabled` to true and lower"
        return (
            f"Split the rows of the most frequent values of {node.keys}: {switch}"
            " `spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes` below the size of that task's input,"
            " broadcast the smaller side, or add a random part to the key."
        )
    return (
        f"Split the most frequent values of {node.keys}: combine in two steps, first by the key and a random"
        " number, then by the key; or filter values such as null or a default that need no result."
    )


def _slow(case: Case, key: StageKey, seen: _Long, gain: Gain) -> Finding:
    return Finding(
        cause="slow-task",
        text=(
            f"{_spends(case, key, seen)}, although it reads and writes no more than they do."
            " Its host may have been busy, or its rows may be harder to process."
        ),
        advice=(
            "Set `spark.speculation` to true, so that Spark copies such a task to another executor; if it is slow"
            " in each run, look at its rows."
        ),
        gain=gain.share,
        seconds=gain.seconds,
        certainty=Certainty.POSSIBLE,
        place=place_of(case, key),
        evidence=seen.evidence,
    )
