"""Random changes, returns and restarts of one operator, against a dictionary that is never converted.

A schedule is a number. From it follow which aggregates are added and left out while the job runs, to which text of
before a driver returns, when the job restarts and state is written anew, and how runs are merged. Whatever is accepted
gives what the dictionary says. A return that would lose a column is refused, and then nothing has happened.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import OtherDataflowError, RefusedError
from rechannel.settings import Settings
from rechannel.state.merging import MergePolicy
from rechannel.testing import Harness, MemoryStore, script

SCHEDULES = 30
STEPS = 14
EXTRAS = ("a", "b", "c")
KEYS = [f"k{number}" for number in range(12)]


@dataclass
class Twin:
    """Totals by column and key; a column that is added again is another one. lost: may not be had back."""

    counts: Counter[str] = field(default_factory=Counter)
    totals: dict[int, Counter[str]] = field(default_factory=dict)
    now: dict[str, int] = field(default_factory=dict)
    versions: list[dict[str, int]] = field(default_factory=lambda: [{}])
    lost: set[int] = field(default_factory=set)

    def change(self, extras: tuple[str, ...]) -> None:
        for name in extras:
            if name not in self.now:
                self.now[name] = len(self.totals)
                self.totals[self.now[name]] = Counter()
        self.now = {name: self.now[name] for name in extras}
        self.versions.append(dict(self.now))

    def feed(self, keys: list[str]) -> None:
        self.counts.update(keys)
        for column in self.now.values():
            self.totals[column].update(keys)
        self.write()

    def write(self) -> None:
        """State is written without the columns that are not there now."""
        self.lost |= self.totals.keys() - set(self.now.values())

    def meant(self, extras: tuple[str, ...]) -> dict[str, int]:
        """The latest version of a text."""
        return next(v for v in reversed(self.versions) if tuple(v) == extras)

    def rows(self) -> dict[str, dict[str, int | None]]:
        return {
            key: {"n": n} | {name: self.totals[one].get(key) for name, one in self.now.items()}
            for key, n in self.counts.items()
        }


class Schedule:
    """One schedule. happened: how often each thing did."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.source = script("k string, v bigint")
        self.store = MemoryStore()
        self.fan = self.rng.randint(2, 8)
        self.twin = Twin()
        self.happened: Counter[str] = Counter()
        self.harness = self.text(())
        self.harness.start()

    def aggregates(self, extras: tuple[str, ...]) -> dict[str, object]:
        return {"n": agg.count()} | {name: agg.sum("v") for name in extras}

    def text(self, extras: tuple[str, ...]) -> Harness:
        keyed = rc.read().memory(self.source, name="in").key_by("k")
        op = keyed.aggregate(**self.aggregates(extras), name="op")
        settings = Settings(
            tasks=self.rng.randint(1, 3),
            bins=8,
            keep_versions=self.rng.choice((1, 3)),
            merging=MergePolicy(fan=self.fan, slice_rows=4),
        )
        return Harness(op.write.memory("out", name="out"), store=self.store, settings=settings)

    def run(self) -> Counter[str]:
        steps = [self.feed, self.feed, self.change, self.revert, self.restart, self.rewrite]
        for _ in range(STEPS):
            self.rng.choice(steps)()
        self.feed()
        return self.happened

    def feed(self) -> None:
        keys = [key for key in KEYS if self.rng.random() < 0.4] or KEYS[:1]
        self.harness.process.run()
        self.source.push([{"k": key, "v": 1} for key in keys])
        self.harness.process.run()
        self.twin.feed(keys)
        self.check()

    def change(self) -> None:
        kept = self.rng.choice((0.3, 0.6, 0.9))
        odds = {name: kept if name in self.twin.now else 0.5 for name in EXTRAS}
        extras = tuple(name for name in EXTRAS if self.rng.random() < odds[name])
        try:
            wanted = rc.changes.change_logic("op", self.aggregates(extras))
            self.harness.process.reconfigure(wanted)
        except RefusedError:
            assert extras == tuple(self.twin.now)
            return
        self.harness.process.run()
        self.twin.change(extras)
        self.happened["changed"] += 1
        self.check()

    def revert(self) -> None:
        extras = tuple(self.rng.choice(self.twin.versions))
        if extras == tuple(self.twin.now):
            return
        self.harness.process.stop()
        there, meant = self.text(extras), self.twin.meant(extras)
        before = there.journal_state().number
        try:
            there.start(revert=True)
        except OtherDataflowError:
            assert there.journal_state().number == before
            self.happened["refused"] += 1
            self.start()
            return
        assert not self.twin.lost & set(meant.values())
        self.happened["returned"] += 1
        self.harness = there
        self.twin.now = dict(meant)
        self.twin.versions.append(dict(meant))
        self.check()

    def restart(self) -> None:
        self.harness.process.stop()
        self.start()

    def start(self) -> None:
        self.harness = self.text(tuple(self.twin.now))
        self.harness.start(revert=self.rng.random() < 0.5)
        self.check()

    def rewrite(self) -> None:
        self.harness.process.reconfigure(rc.changes.rewrite("op"))
        self.harness.process.run()
        self.feed()
        self.happened["rewritten"] += 1

    def check(self) -> None:
        rows = {row.pop("k"): row for row in self.harness.state("op").to_pylist()}
        assert rows == self.twin.rows()


def test_whatever_is_led_back_is_what_it_would_be_without_the_change():
    happened: Counter[str] = Counter()
    for seed in range(SCHEDULES):
        try:
            happened += Schedule(seed).run()
        except BaseException as error:
            error.add_note(f"schedule {seed}")
            raise
    assert min(happened[what] for what in ("changed", "returned", "refused", "rewritten")) > 4
