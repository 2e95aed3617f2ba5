"""Two runs of the same application: what got slower or faster. Pure.

The critical participation of all activities of a window adds up to 1. So participation times the length of the window
is an activity's part of the time that the run took. The parts of all operators add up to the length of the run, and
their differences to the difference between two runs; so do the parts of all kinds of activities. What has no operator
(the driver, mostly) stands under its kind. Windows without a critical path are a part of their own, `UNEXPLAINED`.

Operators are matched by their names, which are nodes of the plan and call sites and do not depend on the numbers of
stages. Names that differ only in numbers (a line of the program moved) are matched in their order. What is left ran in
one of the two only.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from rechannel.profiling.model.analysis import Analysis
from rechannel.profiling.model.finding import Finding
from rechannel.profiling.model.findings import (
    COMMUNICATION,
    DRIVERS,
    IDLE,
    NOTHING,
    PROCESSING,
    SCHEDULING,
)
from rechannel.profiling.model.trace import NS
from rechannel.profiling.model.words import capitalised, counted, listed, seconds

UNEXPLAINED = "no critical path"
"""The part of windows through which no path leads: every worker waited at some time, or nothing is known."""
EQUAL = 0.01
"""Runs whose lengths differ by a smaller share are called equally long."""
TOLD = 0.1
"""The text leaves out parts that changed by a smaller share of the difference (of the length, in equally long runs)."""
MORE = 1.25
"""How many times as many workers one of the runs has, at least, for this to be noted."""
SENTENCES = 3
"""Parts that the text names at most."""
_NUMBER = re.compile(r"\d+")

PARTS = {
    "name": pl.String,
    "in_a": pl.String,
    "seconds_a": pl.Float64,
    "seconds_b": pl.Float64,
    "difference": pl.Float64,
    "work_a": pl.Float64,
    "work_b": pl.Float64,
}
"""Columns of `Comparison.by_operator` and `by_activity`. name: null if only A has it. in_a: its name in A; null if only
B has it. seconds: its part of the run's length. difference: B minus A. work: summed over all workers."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """What changed from a run A to a run B. Seconds; means over batches if both runs are cut into batches."""

    titles: tuple[str, str]
    seconds: tuple[float, float]
    """Lengths of the runs, or mean lengths of their batches."""
    batches: tuple[int, int] | None
    """Numbers of batches; None if whole runs are compared."""
    by_operator: pl.DataFrame
    """The largest change first, with the columns of `PARTS`."""
    by_activity: pl.DataFrame
    """The same by kind of activity."""
    appeared: Sequence[str]
    """What stands out in B only: causes of findings with weight."""
    gone: Sequence[str]
    """What stands out in A only."""
    notes: Sequence[str] = field(default_factory=list)

    @property
    def difference(self) -> float:
        """By how much B is longer, in seconds."""
        return self.seconds[1] - self.seconds[0]

    @property
    def slower(self) -> float:
        """By how much B is longer, as a share of A; infinite if A took no time."""
        if not self.seconds[0]:
            return float("inf") if self.seconds[1] else 0.0
        return self.difference / self.seconds[0]

    @property
    def text(self) -> str:
        """What changed, as sentences."""
        said = [_end_to_end(self)]
        said += _changes(self)
        kinds = self.by_activity.filter(pl.col("difference").abs() >= self._told)
        if len(kinds):
            each = [_longer(self, row) for row in kinds.head(SENTENCES).iter_rows(named=True)]
            said.append(f"By kind of activity: {listed(each)}.")
        if self.appeared:
            said.append(f"Only B has findings about: {', '.join(self.appeared)}.")
        if self.gone:
            said.append(f"Only A has findings about: {', '.join(self.gone)}.")
        return " ".join(said)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "a": self.titles[0],
            "b": self.titles[1],
            "seconds_a": self.seconds[0],
            "seconds_b": self.seconds[1],
            "difference": self.difference,
            "slower": self.slower if self.seconds[0] else None,
            "batches": None if self.batches is None else list(self.batches),
            "text": self.text,
            "operators": self.by_operator.to_dicts(),
            "activities": self.by_activity.to_dicts(),
            "appeared": list(self.appeared),
            "gone": list(self.gone),
            "notes": list(self.notes),
        }

    @property
    def _told(self) -> float:
        """Seconds from which on the text names a change."""
        same = abs(self.slower) < EQUAL
        return max(1e-3, TOLD * (max(self.seconds) if same else abs(self.difference)))


def compare_profiles(a: Analysis, b: Analysis) -> Comparison:
    """Compare two runs of the same application: what got slower or faster from A to B.

    If both were profiled by batches, the mean batch of A is compared with that of B.
    """
    both = [_Run.of(each) for each in (a, b)]
    batched = all(run.batches for run in both)
    runs = [run.by_batch() if batched else run for run in both]
    one, two = runs
    causes = [_causes(each.findings) for each in (a, b)]
    return Comparison(
        titles=(a.title, b.title),
        seconds=(one.seconds, two.seconds),
        batches=(one.batches, two.batches) if batched else None,
        by_operator=_joined(one.parts("operator"), two.parts("operator")),
        by_activity=_joined(one.parts("kind"), two.parts("kind")),
        appeared=[cause for cause in causes[1] if cause not in causes[0]],
        gone=[cause for cause in causes[0] if cause not in causes[1]],
        notes=_notes(a, b),
    )


def _causes(found: Sequence[Finding]) -> list[str]:
    """Return what stands out; shares of the critical path are compared as such."""
    general = {PROCESSING, SCHEDULING, COMMUNICATION, IDLE, NOTHING}
    named = [each.cause for each in found if each.weighty and each.cause not in general]
    return list(dict.fromkeys(named))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Run:
    """The parts of one run."""

    found: Analysis
    windows: pl.DataFrame
    """Those that count."""
    seconds: float
    batches: int
    per: int = 1
    """By how many parts are divided."""

    @classmethod
    def of(cls, found: Analysis) -> _Run:
        """Take a whole run."""
        windows = found.profile.windows
        begin, end = windows["start"].to_list(), windows["end"].to_list()
        ns = max(end, default=0) - min(begin, default=0)
        batches = windows["batch"].drop_nulls().n_unique()
        return cls(found=found, windows=windows, seconds=ns / NS, batches=batches)

    def by_batch(self) -> _Run:
        """Take its mean batch."""
        windows = self.windows.filter(pl.col("batch").is_not_null())
        ns = int((windows["end"] - windows["start"]).sum())
        count = self.batches
        return _Run(
            found=self.found, windows=windows, seconds=ns / NS / count, batches=count, per=count
        )

    def parts(self, column: str) -> dict[str, tuple[float, float]]:
        """Return seconds and work by name, in the order in which names were met."""
        length = (pl.col("end") - pl.col("start")).alias("length")
        mine = self.windows.lazy().filter(pl.col("paths") > float("-inf")).select("window", length)
        sums = (
            self.found.profile.cells.join(mine, on="window")
            .group_by("operator", "kind", "message")
            .agg((pl.col("critical") * pl.col("length")).sum(), pl.sum("ns"))
            .sort("operator", "kind", "message")
            .collect(engine="streaming")
        )
        names = self.found.profile.names
        held: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for operator, kind, message, critical, ns in sums.iter_rows():
            known = column == "operator" and operator >= 0
            part = held[names.operators[operator] if known else names.kinds[kind]]
            part[0] += critical / NS / self.per
            # Several messages may be on their way at a time: they are no work.
            part[1] += 0 if message else ns / NS / self.per
        left = self.seconds - sum(part[0] for part in held.values())
        if left > EQUAL * self.seconds:
            held[UNEXPLAINED] = [left, 0.0]
        return {name: (part[0], part[1]) for name, part in held.items()}


def matched(a: Sequence[str], b: Sequence[str]) -> list[tuple[str | None, str | None]]:
    """Pair the names of two runs; None where one of them has no such name."""
    both = set(a) & set(b)
    pairs: list[tuple[str | None, str | None]] = [(name, name) for name in a if name in both]
    groups = [_grouped(name for name in names if name not in both) for names in (a, b)]
    for key in dict.fromkeys([*groups[0], *groups[1]]):
        ours, theirs = (list(group.get(key, ())) for group in groups)
        if len(ours) != len(theirs):
            # Which of them is which is not known.
            pairs += [(name, None) for name in ours] + [(None, name) for name in theirs]
        else:
            pairs += zip(ours, theirs, strict=True)
    return pairs


def _grouped(names: Iterable[str]) -> Mapping[str, list[str]]:
    held: dict[str, list[str]] = defaultdict(list)
    for name in names:
        held[_NUMBER.sub("#", name)].append(name)
    return held


def _joined(
    a: Mapping[str, tuple[float, float]], b: Mapping[str, tuple[float, float]]
) -> pl.DataFrame:
    rows = []
    for ours, theirs in matched(list(a), list(b)):
        one, two = a.get(ours or "", (0.0, 0.0)), b.get(theirs or "", (0.0, 0.0))
        rows.append((theirs, ours, one[0], two[0], two[0] - one[0], one[1], two[1]))
    made = pl.DataFrame(rows, schema=PARTS, orient="row")
    order = [pl.col("difference").abs().round(9), pl.coalesce("name", "in_a")]
    return made.sort(order, descending=[True, False])


def _notes(a: Analysis, b: Analysis) -> list[str]:
    notes = []
    names = [each.application for each in (a, b)]
    if all(names) and names[0] != names[1]:
        notes.append(f"A is {names[0]!r} and B is {names[1]!r}: are they the same application?")
    operators = [each.profile.names.operators for each in (a, b)]
    if all(operators) and not any(None not in pair for pair in matched(*operators)):
        notes.append("no operator ran in both: the applications differ, or their plans do")
    workers = [len(set(each.profile.names.workers) - set(DRIVERS)) for each in (a, b)]
    if min(workers) > 0 and max(workers) >= MORE * min(workers):
        notes.append(
            f"A has {counted(workers[0], 'worker')}, and B {workers[1]:,}; drivers do not count"
        )
    return notes


def _end_to_end(made: Comparison) -> str:
    a, b = made.seconds
    about = "B" if made.batches is None else "A batch of B"
    than = "A" if made.batches is None else "one of A, on average"
    both = f"{seconds(b)} instead of {seconds(a)}" if seconds(a) != seconds(b) else seconds(a)
    if abs(made.slower) < EQUAL:
        return f"{about} takes as long as {than}: {both} ({made.slower * 100:+.1f} %)."
    share = "" if made.slower == float("inf") else f", {made.slower * 100:+.0f} %"
    word = "longer" if made.difference > 0 else "less"
    return f"{about} takes {seconds(abs(made.difference))} {word} than {than} ({both}{share})."


def _changes(made: Comparison) -> list[str]:
    """Name what changed most, in both directions."""
    same = abs(made.slower) < EQUAL
    rows = made.by_operator.filter(pl.col("difference").abs() >= made._told).head(SENTENCES)
    said = []
    for row in rows.iter_rows(named=True):
        if same or not 0 < row["difference"] / made.difference <= 1:
            said.append(f"{capitalised(_longer(made, row))} ({_instead(row)}).")
        else:
            amount = seconds(abs(row["difference"]))
            said.append(f"{amount} of that are in {_called(made, row)} ({_instead(row)}).")
    return said


def _instead(row: Mapping[str, Any]) -> str:
    if row["in_a"] is None:
        return "A does not have it"
    if row["name"] is None:
        return "B does not have it"
    return f"{seconds(row['seconds_b'])} instead of {seconds(row['seconds_a'])}"


def _longer(made: Comparison, row: Mapping[str, Any]) -> str:
    word = "longer" if row["difference"] > 0 else "less"
    return f"{_called(made, row)} takes {seconds(abs(row['difference']))} {word}"


def _called(made: Comparison, row: Mapping[str, Any]) -> str:
    """Return the name of a part: that of an operator in quotes, that of a kind of activity without."""
    name: str = row["in_a"] if row["name"] is None else row["name"]
    kinds = made.by_activity.select(pl.coalesce("name", "in_a")).to_series()
    return name if name in kinds else repr(name)
