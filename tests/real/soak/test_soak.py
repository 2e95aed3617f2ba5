"""Hours from Kafka to Kafka, with state in a bucket, while something happens every few seconds: exact, and flat."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.real.soak.drivers import Drivers
from tests.real.soak.faults import FAULTS, World, world
from tests.real.soak.records import Seen
from tests.real.soak.samples import Rules, Verdict, judge
from tests.real.soak.schedule import CHANGES, Event, Kind, Plan, pauses, schedule
from tests.real.soak.topics import Feed, Readers
from tests.real.soak.watching import LIMITS, Watch

SETTLE_S = 600.0
ROUNDS = 3
"""How often kinds that had no effect are tried again in the end."""
JUDGED_FROM_S = 1_800.0
"""A shorter soak bounds no slopes: a few minutes of warming up say nothing about an hour."""


@dataclass
class Soak:
    """One soak: what takes part in it, and what has happened."""

    place: Path
    plan: Plan
    around: World
    drivers: Drivers
    feed: Feed
    readers: Readers
    watch: Watch
    happened: Counter[Kind] = field(default_factory=Counter)
    """Faults that had an effect."""
    refused: Counter[str] = field(default_factory=Counter)
    asked: dict[str, Kind] = field(default_factory=dict)
    """Changes that were accepted, by id."""
    checks: int = 0

    def say(self, text: str) -> None:
        """Write a line, and show it (`pytest -s`)."""
        minutes, seconds = divmod(time.monotonic() - self.watch.begun, 60)
        line = f"{minutes:4.0f}:{seconds:02.0f} {text}"
        print(line, flush=True)
        with (self.place / "soak.log").open("a") as log:
            log.write(f"{line}\n")

    def run(self) -> None:
        """Have everything happen, and compare everything at each pause.

        The clock stands still during a pause, and where something takes longer than it is to the next event.
        """
        events, times = [*schedule(self.plan)], [*pauses(self.plan)]
        begun, still = time.monotonic(), 0.0
        while times:
            self.stand()
            at = time.monotonic()
            now = at - begun - still
            if events and events[0].at_s <= min(now, times[0]):
                self.happen(events.pop(0))
                still += max(0.0, time.monotonic() - at - self.plan.every_s)
            elif times[0] <= now:
                times.pop(0)
                self.check()
                still += time.monotonic() - at
            else:
                time.sleep(0.1)
        assert not events

    def stand(self) -> None:
        """End faults whose time has come. Raises whatever has failed meanwhile."""
        self.around.end_faults()
        self.drivers.watch()
        for failure in (self.feed.failure, self.watch.failure):
            if failure is not None:
                raise failure

    def happen(self, event: Event) -> None:
        """Have something happen."""
        if event.kind in CHANGES:
            answer = self.drivers.ask(str(event.kind), event.seed)
            if "id" in answer:
                self.asked[answer["id"]] = event.kind
            else:
                self.refused[answer["refused"].split(":")[0]] += 1
            did = json.dumps(answer)
        elif event.kind is Kind.KILL_DRIVER:
            self.drivers.kill()
            did = f"driver {self.drivers.active} goes on"
            self.happened[event.kind] += 1
        else:
            did = FAULTS[event.kind](self.around, self.feed, event)
            self.happened[event.kind] += bool(did)
        self.say(f"{event.kind}: {did or 'no effect'}")

    def check(self) -> None:
        """Pause, wait until readers have everything, and compare it."""
        self.around.end_faults(at_once=True)
        self.feed.pause()
        seen, records, bad = self.readers.seen, self.feed.records, self.feed.bad
        deadline = time.monotonic() + SETTLE_S
        while not (self.readers.read() >= 0 and seen.whole(records, bad)):
            self.drivers.watch()
            assert time.monotonic() < deadline, (
                f"after {SETTLE_S:g} s, {seen.copies} of {records} records are copied, {seen.counts.sum()} counted,"
                f" and {seen.letters.total()} of {bad} bad ones have left: {json.dumps(self.drivers.status)}"
            )
            time.sleep(0.5)
        seen.compare(records, bad)
        self.watch.live_heaps()
        self.checks += 1
        status = self.drivers.status
        doubled = f" ({seen.doubled} doubled by the producer)" if seen.doubled else ""
        self.say(
            f"exact: {records:,} records{doubled}, {bad} bad ones, timestep {status['timestep']}, troubles"
            f" {status['troubles']}"
        )
        self.feed.resume()

    def changes(self) -> tuple[Counter[Kind], list[list[Any]]]:
        """Return how often changes were carried out, by kind, and those that were not, with the reason."""
        ends = self.drivers.ask("history")["history"]
        known = [(self.asked[id_], phase, why) for id_, phase, why in ends if id_ in self.asked]
        done = Counter(kind for kind, phase, _ in known if phase == "done")
        return done, [[*each] for each in known if each[1] != "done"]

    def complete(self) -> tuple[Counter[Kind], list[list[Any]]]:
        """Try again what had no effect so far; return what `changes` does."""
        for number in range(ROUNDS):
            done, others = self.changes()
            missing = [
                kind for kind in Kind if not (done if kind in CHANGES else self.happened)[kind]
            ]
            if not missing:
                break
            choose = Random(self.plan.seed + number)
            for kind in missing:
                self.happen(Event(at_s=0, kind=kind, seed=choose.randrange(1 << 30), host=1))
                self._wait_for_changes()
        self.check()
        return done, others

    def _wait_for_changes(self) -> None:
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            self.stand()
            time.sleep(1.5)
            if not self.drivers.status["open"]:
                return


def report(one: Soak, done: Counter[Kind], others: list[list[Any]]) -> tuple[Verdict, ...]:
    """Print what happened, and return the verdicts."""
    counts = {kind: (done if kind in CHANGES else one.happened)[kind] for kind in Kind}
    one.say(f"happened: {', '.join(f'{kind} {number}' for kind, number in counts.items())}")
    one.say(f"refused: {dict(one.refused)}; not done: {others}")
    one.say(
        f"drivers: {dict(one.drivers.happened)}; requests and faults of the store: {dict(one.around.proxy.did)}"
    )
    seen = one.readers.seen
    one.say(
        f"totals with the column {seen.with_column:,}, without {seen.without_column:,}; {one.checks} comparisons"
    )
    span = time.monotonic() - one.watch.begun
    one.watch.write(one.place / "samples.jsonl")
    verdicts = judge(one.watch.samples, LIMITS, Rules(from_s=span / 2))
    for verdict in verdicts:
        one.say(str(verdict))
    return verdicts


def test_hours_of_changes_and_faults_leave_everything_exact_and_flat(
    soak_plan: Plan, soak_rate: int, tmp_path: Path
) -> None:
    state = f"s3://state/{tmp_path.name}"
    with world(tmp_path) as around:
        given = {
            "bootstrap": around.kafka.bootstrap,
            "url": around.cluster.url,
            "settings": dict(around.cluster.settings),
            "store": around.store,
            "state": state,
        }
        drivers = Drivers(tmp_path, given)
        feed = Feed(around.kafka.bootstrap, soak_rate)
        folder = tmp_path / "s3" / "data" / "state" / tmp_path.name
        watch = Watch(around, lambda: drivers.processes, folder)
        readers = Readers(around.kafka.bootstrap, Seen(), feed.partitions)
        try:
            feed.start()
            drivers.start()
            watch.start()
            one = Soak(tmp_path, soak_plan, around, drivers, feed, readers, watch)
            one.run()
            done, others = one.complete()
            watch.stop()
            drivers.stop()
            verdicts = report(one, done, others)
        finally:
            watch.stop()
            feed.stop()
            drivers.close()
    assert all(one.happened[kind] for kind in set(Kind) - CHANGES)
    assert all(done[kind] for kind in CHANGES)
    assert readers.seen.with_column
    assert readers.seen.without_column
    assert drivers.happened["killed"]
    steep = [str(one) for one in verdicts if one.samples == 0 or one.highest > one.limit.most]
    assert not steep, steep
    if soak_plan.seconds >= JUDGED_FROM_S:
        bad = [str(one) for one in verdicts if not (one.good and one.judged)]
        assert not bad, bad
