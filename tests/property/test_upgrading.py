"""Random program texts that take over from each other at starts, against dictionaries that are never converted.

A schedule is a number. From it follow the texts: which aggregates the operator has, what the operator and the source
are called, whether a second operator is there, whether a function stands before them. It also says when drivers die,
with timesteps in flight, and at which write of a start. Whatever is accepted gives what the dictionaries say; what is
refused leaves the journal as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import OtherDataflowError
from rechannel.settings import Settings
from rechannel.state.merging import MergePolicy
from rechannel.testing import Crash, Fault, FaultKind, Harness, MemoryStore, script
from rechannel.testing.recorder import Recorder

SCHEDULES = 10
STEPS = 12
EXTRAS = ("a", "b", "c")
KEYS = [f"k{number}" for number in range(12)]


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A function that one text has and another has not."""
    return batch.set_column(1, "v", pc.multiply(batch["v"], 2))


@dataclass(frozen=True)
class Text:
    """A program text. extras: sums, by name. factor: what each value counts."""

    extras: tuple[str, ...] = ()
    op: str = "op"
    source: str = "in"
    second: bool = False
    factor: int = 1
    count: str = "n"

    def flows(self, source: Any) -> list[Any]:
        rows = rc.read().memory(source, name=self.source)
        if self.factor == 2:
            rows = rows.map_batches(doubled, schema="k string, v bigint", name="doubled")
        sums = {name: agg.sum("v") for name in self.extras}
        op = rows.key_by("k").aggregate(**{self.count: agg.count()}, **sums, name=self.op)
        ends = [op.write.memory("out", name="out")]
        if self.second:
            second = rows.key_by("k").aggregate(top=agg.max("v"), name="second")
            ends.append(second.write.memory("second-out", name="second-out"))
        return ends


@dataclass
class Twin:
    """Counts and sums by key."""

    counts: Counter[str] = field(default_factory=Counter)
    sums: dict[str, Counter[str]] = field(default_factory=dict)
    tops: dict[str, int] | None = None

    def upgrade(self, text: Text) -> None:
        self.sums = {name: self.sums.get(name, Counter()) for name in text.extras}
        self.tops = (self.tops or {}) if text.second else None

    def feed(self, rows: list[dict[str, Any]], factor: int) -> None:
        for row in rows:
            key, value = row["k"], row["v"] * factor
            self.counts[key] += 1
            for one in self.sums.values():
                one[key] += value
            if self.tops is not None:
                self.tops[key] = max(self.tops.get(key, 0), value)

    def rows(self, text: Text) -> dict[str, dict[str, Any]]:
        return {
            key: {text.count: n} | {name: self.sums[name].get(key) for name in text.extras}
            for key, n in self.counts.items()
        }


class Schedule:
    """One schedule. happened: how often each thing did."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.source = script("k string, v bigint")
        self.store = MemoryStore()
        self.fan = self.rng.randint(2, 6)
        self.twin, self.text = Twin(), Text()
        self.recorders = {"out": Recorder(), "second-out": Recorder()}
        self.happened: Counter[str] = Counter()
        self.armed = False
        self.harness = self.bench(self.text)
        self.harness.start()
        self.open: list[tuple[list[dict[str, Any]], int]] = []
        """Rows that are given and not known to be in a committed timestep, as the text read them that ran then."""

    def bench(self, text: Text) -> Harness:
        settings = Settings(
            tasks=self.rng.randint(1, 3),
            bins=8,
            keep_versions=self.rng.choice((1, 3)),
            merging=MergePolicy(fan=self.fan, slice_rows=4),
        )
        flows = text.flows(self.source)
        mine = {name: self.recorders[name] for name in ("out", "second-out")[: len(flows)]}
        return Harness(flows, store=self.store, settings=settings, recorders=mine)

    def run(self) -> Counter[str]:
        steps = [self.feed, self.feed, self.upgrade, self.upgrade, self.refuse, self.restart]
        for _ in range(STEPS):
            self.rng.choice(steps)()
        self.feed()
        return self.happened

    def rows(self) -> list[dict[str, Any]]:
        keys = [key for key in KEYS if self.rng.random() < 0.4] or KEYS[:1]
        return [{"k": key, "v": self.rng.randint(1, 9)} for key in keys]

    def feed(self) -> None:
        rows = self.rows()
        self.source.push(rows)
        self.harness.process.run()
        self.twin.feed(rows, self.text.factor)
        self.check()

    def end(self) -> None:
        """The driver ends, or dies with a timestep in flight: that is not committed, and is planned anew."""
        if self.rng.random() < 0.4:
            self.harness.process.stop()
            return
        before = self.harness.journal_state().last_committed
        rows = self.rows()
        self.source.push(rows)
        for _ in range(self.rng.randint(1, 4)):
            self.harness.process.step()
        state = self.harness.journal_state()
        self.happened["in flight"] += bool(state.open_intents)
        if state.last_committed != before:
            self.twin.feed(rows, self.text.factor)
            rows = []
        self.open = [(rows, self.text.factor)]

    def next_text(self) -> tuple[Text, dict[str, Any]]:
        """Another text, and what has to be said of it."""
        said: dict[str, Any] = {}
        text = self.text
        kept = self.rng.choice((0.3, 0.6, 0.9))
        odds = {name: kept if name in text.extras else 0.5 for name in EXTRAS}
        extras = tuple(name for name in EXTRAS if self.rng.random() < odds[name])
        gone = [name for name in text.extras if name not in extras]
        renamed: dict[str, str] = {}
        new = replace(
            text,
            extras=extras,
            second=self.rng.random() < 0.5,
            factor=self.rng.choice((1, 2)),
            count=self.rng.choice(("n", "number")),
        )
        if self.rng.random() < 0.3:
            new = replace(new, op="op" if text.op == "ops" else "ops")
            renamed[text.op] = new.op
        if self.rng.random() < 0.3:
            new = replace(new, source="in" if text.source == "input" else "input")
            renamed[text.source] = new.source
        names = {text.count: new.count} if text.count != new.count else {}
        if names or gone:
            said["migrate"] = {new.op: rc.changes.migrate(rename=names, drop=gone)}
        if renamed:
            said["renamed"] = renamed
        if text.second and not new.second:
            said["without"] = ["second"]
        return new, said

    def upgrade(self) -> None:
        new, said = self.next_text()
        self.end()
        while True:
            harness = self.bench(new)
            self.armed = self.rng.random() < 0.5
            try:
                harness.start(upgrade=True, faults=self.faults(), **said)
                harness.process.run()
            except Crash:
                self.happened["died"] += 1
                continue
            self.armed = False
            break
        self.took_over(harness, new)
        self.happened["upgraded"] += new != self.text
        self.happened["renamed"] += "renamed" in said
        self.text = new
        self.check()

    def faults(self) -> Iterator[Fault | None]:
        """The driver dies at one of its first writes, while it is armed."""
        yield from [None] * self.rng.randint(0, 8)
        if self.armed:
            yield Fault(kind=self.rng.choice((FaultKind.BEFORE, FaultKind.AFTER)))

    def took_over(self, harness: Harness, text: Text) -> None:
        self.harness = harness
        self.twin.upgrade(text)
        for rows, _ in self.open:
            self.twin.feed(rows, text.factor)
        self.open = []

    def refuse(self) -> None:
        """What a text would lose is not said: it is refused, and the text of before goes on."""
        new, said = self.next_text()
        if not said:
            return
        self.end()
        left = said.copy()
        left.pop(self.rng.choice(sorted(left)))
        harness = self.bench(new)
        before = harness.journal_state().number
        dropped = said.get("migrate") and "migrate" not in left
        only_dropped = (
            dropped and new.count == self.text.count and not set(new.extras) - set(self.text.extras)
        )
        if only_dropped:  # aggregates that are left out are dropped, as in a live change
            self.happened["left out"] += 1
        else:
            with pytest.raises(OtherDataflowError):
                harness.start(upgrade=True, **left)
            assert harness.journal_state().number == before
            self.happened["refused"] += 1
        self.restart(ended=True)

    def restart(self, *, ended: bool = False) -> None:
        """The same text goes on, also if it is given as an upgrade: with what was declared of the one before."""
        if not ended:
            self.end()
        harness = self.bench(self.text)
        harness.start(upgrade=self.rng.random() < 0.5)
        harness.process.run()
        self.took_over(harness, self.text)
        self.check()

    def check(self) -> None:
        rows = {row.pop("k"): row for row in self.harness.state(self.text.op).to_pylist()}
        assert rows == self.twin.rows(self.text)
        if self.text.second:
            tops = {row["k"]: row["top"] for row in self.harness.state("second").to_pylist()}
            assert tops == self.twin.tops
        shown: dict[str, int] = {}
        for _, table in sorted(self.recorders["out"].published.items()):
            counts = table["n" if "n" in table.column_names else "number"]
            shown.update(zip(table["k"].to_pylist(), counts.to_pylist(), strict=True))
        assert shown == self.twin.counts


def test_whatever_takes_over_is_what_it_would_be_if_it_had_always_run(thorough):
    happened: Counter[str] = Counter()
    for seed in range(400 if thorough else SCHEDULES):
        try:
            happened += Schedule(seed).run()
        except BaseException as error:
            error.add_note(f"schedule {seed}")
            raise
    expected = ("upgraded", "renamed", "refused", "died", "in flight", "left out")
    assert min(happened[what] for what in expected) > 1, happened
