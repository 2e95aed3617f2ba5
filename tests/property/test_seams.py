"""Random schedules at the seams of a job: nothing is lost, nothing is shown twice, nothing grows.

Every eighth schedule has controllers too (`controlling.py`).

`RECHANNEL_SEED=n` replays schedule n alone.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

import pytest

import rechannel as rc
from rechannel.changes import change_dataflow
from rechannel.control.controller import Installation
from rechannel.engine.journal.reading import read_only
from rechannel.engine.stages.inprocess import TaskDied
from rechannel.errors import (
    DamagedStateError,
    FencedError,
    RechannelError,
    RefusedError,
    StateInUseError,
    StorageError,
)
from rechannel.model.configuration import Configuration
from rechannel.reconfigure import coordination
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.program import ChangeProgram
from rechannel.reconfigure.changes.together import parts_of
from rechannel.testing import Crash
from tests.property import growth
from tests.property import twin_seams as twin
from tests.property.control_programs import Stage
from tests.property.controlling import HAPPENED, Controllers
from tests.property.schedules import check_schedules
from tests.property.seams import FAN, Life, World
from tests.property.seams_limits import count_what_small_limits_do
from tests.property.seams_program import ALL, FUNCTIONS, KINDS, TOTALS, Part, Text

CONTROLLED = 8
"""One schedule of so many has controllers."""

LIVES = 6
"""Drivers that may be disturbed; the next one is left alone."""
STEPS = 120
"""Steps of a driver before it finishes what there is."""


@dataclass(frozen=True, kw_only=True)
class Backup:
    """A copy of the state directory, and what was known when it was made."""

    store: dict[str, bytes]
    texts: dict[int, Text]
    begun: dict[int, int]


@dataclass(kw_only=True)
class Schedule:
    """One schedule under way.

    texts: every version of the program that was asked for. begun: from which timestep a version
    held. serial: of incarnations.
    """

    world: World
    texts: dict[int, Text] = field(default_factory=lambda: {1: Text()})
    begun: dict[int, int] = field(default_factory=lambda: {1: 1})
    asleep: list[Life] = field(default_factory=list)
    serial: int = 0
    lives: int = 0
    backup: Backup | None = None
    over: bool = False
    grown: int | None = None
    controllers: Controllers | None = None
    last: Life | None = None

    @property
    def rng(self) -> Random:
        return self.world.rng

    @property
    def happened(self) -> Counter[str]:
        return self.world.happened

    def run(self) -> None:
        """Start drivers until one is left without anything to do."""
        while not self.over and not self.live():
            if self.rng.random() < 0.2:
                self.copy()
            if self.backup and self.lives > 2 and self.rng.random() < 0.3:
                self.put_back(self.backup)

    def copy(self) -> None:
        """Make a backup."""
        self.backup = Backup(
            store=self.world.store.copy(),
            texts=dict(self.texts),
            begun=dict(self.begun),
        )

    def put_back(self, backup: Backup) -> None:
        """A copy of the state directory takes its place; folders of sinks stay as they are.

        Either nothing was shown since it was made, or the job is refused: nothing that readers
        have seen becomes anything else, and the schedule is over.
        """
        self.backup = None
        self.asleep.clear()
        self.world.store.away = 0
        self.world.store.put_back(backup.store)
        self.world.set_right()  # a stream that has no time yet believes any
        self.texts, self.begun = dict(backup.texts), dict(backup.begun)
        before, again = self.world.shown(), self.rng.random() < 0.5
        try:
            self.work_off(remove_later=False)
            self.happened["backup taken up"] += 1
        except RechannelError:
            self.happened["backup refused"] += 1
            now = self.world.shown()
            assert all(now[where] is rows for where, rows in before.items()), "shown and changed"
            self.over = not again
        if again:  # what was shown after the backup may go
            self.work_off(remove_later=True)
            self.happened["later output removed"] += 1

    def work_off(self, *, remove_later: bool) -> None:
        """A driver does all there is, undisturbed."""
        self.world.disk.refused.clear()
        life = self.world.start(
            self.text(),
            takeover=True,
            faulty=False,
            replan=True,
            remove_later=remove_later,
            controllers=self.installed(calm=True),
        )
        while self.world.step(life):
            self.world.beat(life)
            self.look(life)
        self.look(life)

    def installed(self, *, calm: bool) -> list[Installation]:
        """The controllers that a driver is started with."""
        return self.controllers.program(calm=calm) if self.controllers else []

    def text(self) -> Text:
        """The program as the journal has it."""
        state = read_only(self.world.store)
        if not state.configurations:
            return self.texts[1]
        return self.texts[state.configuration_at((state.last_intended or 0) + 1).dataflow]

    def live(self) -> bool:
        """The life of one driver; whether it finished."""
        self.lives += 1
        calm = self.lives > LIVES
        life = None
        self.world.store.away = 0
        if calm or self.rng.random() < 0.7:
            self.world.disk.refused.clear()
        try:
            life = self.begin(calm=calm)
            return self.drive(life, calm=calm)
        except Crash:
            self.happened["died"] += 1
        except StorageError:
            assert not calm
            self.happened["refused by a store or folder"] += 1
        except TaskDied:
            assert not calm, "smaller timesteps were asked for in vain"
            self.happened["too large"] += 1
        finally:
            if life is not None:
                self.look(life)
        return False

    def begin(self, *, calm: bool) -> Life:
        """Start a driver: refused while another one gives signs, if it does not insist."""
        replan = calm or self.rng.random() < 0.2
        self.happened["planned anew"] += replan
        if self.rng.random() < 0.5:
            self.world.expire()
        start = partial(
            self.world.start,
            self.text(),
            faulty=not calm,
            replan=replan,
            controllers=self.installed(calm=calm),
        )
        try:
            return start(takeover=False)
        except StateInUseError:
            self.happened["refused by the lease"] += 1
        return start(takeover=True)

    def drive(self, life: Life, *, calm: bool) -> bool:
        steps = self.rng.randrange(STEPS)
        while self.world.step(life) or steps > 0:
            steps -= 1
            self.world.beat(life)
            self.look(life)
            if calm or steps <= 0:
                self.world.set_right()  # patience goes by the clock
                continue
            self.wake()
            self.disturb(life)
            if self.rng.random() < 0.01:
                self.happened["fell asleep"] += 1
                self.asleep.append(life)
                return False
            if self.rng.random() < 0.01:
                self.happened["killed"] += 1
                return False
        if not calm:
            return False
        if self.release(life):
            return self.drive(life, calm=calm)
        while self.asleep:
            self.world.expire()  # nobody's patience lasts for ever
            self.wake()
        if self.controllers:
            self.controllers.finish(life.process, partial(self.world.step, life))
        self.last = life
        life.process.stop()
        self.look(life)
        life.process.sweep()
        growth.check_files(self.world.store, life.process.journal.state)
        return True

    def disturb(self, life: Life) -> None:
        """Something comes from outside, now and then."""
        if self.rng.random() < 0.2:
            self.world.push(self.rng.choice(sorted(self.world.feeds)))
        if self.rng.random() < 0.15:
            self.change(life)
        if self.rng.random() < 0.1:
            self.change_numbers(life)
        if self.controllers:
            self.controllers.disturb(life.process)
        if self.rng.random() < 0.05:
            self.world.damage()
        if self.rng.random() < 0.02:
            self.happened["outages"] += 1
            self.world.store.away = self.rng.choice((1, 2, 8))
        if self.rng.random() < 0.05 and life.process.journal.state.stream_ms:
            self.happened["the clock jumps"] += 1
            self.world.jump()
        # An outage of the store silences a driver that is awake, in the end for longer than its lease lasts.
        if self.rng.random() < 0.1 and not life.heart.replaced and life.heart.in_a_row < 2:
            self.world.knock()

    def release(self, life: Life) -> int:
        """Let sinks out of quarantine; how many."""
        publisher = life.process.publisher
        held = [name for name, how in publisher.standing().items() if how["quarantine"]]
        for name in held:
            publisher.release(name)
        self.happened["released"] += len(held)
        return len(held)

    def change(self, life: Life) -> None:
        """Ask for one part more or less."""
        now = self.texts[life.process.switch.current.program.version]
        there = {part.name: part for part in now.parts}
        name = self.rng.choice(sorted(KINDS))
        if name in there:
            parts = tuple(part for part in now.parts if part.name != name)
        else:
            self.serial += 1
            part = Part(name=name, kind=KINDS[name], serial=self.serial)
            parts = (*now.parts, part)
            if part.kind == "side":
                self.world.feed(part.path)
        text = replace(now, parts=parts)
        try:
            id_ = life.process.reconfigure(
                change_dataflow(*text.flows(self.world.sources(smallest=False)))
            )
        except RefusedError:
            self.happened["change refused"] += 1
            return
        records = life.process.journal.state.coordination.records
        (record,) = (record for record in records if record.id == id_)
        for change in parts_of(record.change):
            if isinstance(change, ChangeProgram):
                self.texts[change.version] = text
                self.begun.pop(change.version, None)
        self.happened[f"{'removed' if name in there else 'added'} {name}"] += 1

    def change_numbers(self, life: Life) -> None:
        """Ask for something that is done at once, now and then for something that waits for a timestep."""
        process, at = life.process, None
        change: Any = rc.changes.set_in_flight(self.rng.randint(1, 3))
        if self.rng.random() < 0.1:
            change = rc.changes.combine("sums", self.rng.choice(("on", "off", "auto")))
            at = process.position.timestep + self.rng.randint(1, 8)
        open_ = process.journal.state.coordination.open
        waiting = [record.id for record in open_ if "sums" in record.touches]
        try:
            if waiting and self.rng.random() < 0.1:
                process.abort(self.rng.choice(waiting))
                self.happened["a change that waited is aborted"] += 1
                return
            process.reconfigure(change, at=at)
        except RefusedError:
            return
        self.happened["numbers changed" if at is None else "a change waits"] += 1

    def look(self, life: Life) -> None:
        """From which timestep each version holds."""
        state = life.process.journal.state
        for since, configuration in state.configurations:
            self.begun.setdefault(configuration.dataflow, since)
        if state.last_committed != self.grown:
            self.grown = state.last_committed
            growth.check_growth(state, FAN)
            if self.controllers:
                self.controllers.look(life.process)
        assert state.stream_ms <= self.world.steady(), "the stream is ahead of its time"

    def wake(self) -> None:
        """A driver that slept while another took over does something, until it learns of it."""
        if not self.asleep or self.rng.random() < 0.5:
            return
        life = self.rng.choice(self.asleep)
        try:
            life.heart.beat(self.world.clock())
            if life.heart.replaced:
                self.happened["replaced"] += 1
            if not self.world.step(life):
                self.asleep.remove(life)
        except FencedError:
            self.happened["fenced"] += 1
            self.asleep.remove(life)
        except (Crash, DamagedStateError, StorageError, TaskDied):
            self.asleep.remove(life)

    # At the end ----------------------------------------------------------------------------------

    def check(self) -> None:
        """Compare what readers find with the twin."""
        world = self.world
        witness = twin.narrow(twin.shown(world.disk.published(ALL)))
        twin.check_once(world.pushed["in"], witness, everything=True)
        if self.controllers and self.last:
            self.controllers.check(world.store.entries, Read(witness), self.last.process)
            found = self.controllers.happened.items()
            self.happened.update({f"control: {what}": n for what, n in found})
        twin.check_shown(
            "totals",
            twin.shown(world.disk.published(TOTALS)),
            twin.totals(witness),
            living=True,
        )
        for part, since, until in self.incarnations():
            got = twin.shown(world.disk.published(part.path))
            letters = twin.shown(world.disk.published(part.letters))
            self.happened["dead letters"] += len(letters)
            assert not got.keys() & letters.keys(), f"{part.path}: shown and a dead letter"
            got = {**got, **letters}
            living = until is None
            self.happened[f"rows of {part.name}"] += len(got)
            if part.kind == "side":
                twin.check_once(world.pushed[part.path], twin.narrow(got), everything=living)
                continue
            if part.kind == "liked":
                self.check_liked(part, witness, since, until)
                continue
            if part.kind == "rows":
                got = twin.narrow(got)
            rows = {
                "rows": lambda: witness,
                "totals": lambda: twin.totals(witness),
                "counts": lambda since=since: twin.counts(witness, since),
            }[part.kind]()
            twin.check_shown(part.path, got, twin.between(rows, since, until), living=living)

    def check_liked(self, part: Part, witness: twin.Shown, since: int, until: int | None) -> None:
        """Rows that a function likes are in one sink and all others in another one."""
        got = twin.shown(self.world.disk.published(part.path))
        dead = twin.letters(twin.shown(self.world.disk.published(part.dead)))
        self.happened[f"disliked by {part.function}"] += sum(map(len, dead.values()))
        rows = got if part.function == "track" else twin.narrow(got)
        likes, dislikes = twin.liked(part, witness, since)
        for path, shown, expected in ((part.path, rows, likes), (part.dead, dead, dislikes)):
            wanted = twin.between(expected, since, until)
            twin.check_shown(path, shown, wanted, living=until is None)

    def incarnations(self) -> list[tuple[Part, int, int | None]]:
        """Every part that ran, and the timesteps in which it did."""
        found: dict[Part, tuple[int, int | None]] = {}
        order = sorted((since, version) for version, since in self.begun.items())
        for place, (since, version) in enumerate(order):
            until = order[place + 1][0] if place + 1 < len(order) else None
            for part in self.texts[version].parts:
                found[part] = (found.get(part, (since, None))[0], until)
        return [(part, since, until) for part, (since, until) in found.items()]


@dataclass(frozen=True)
class Read:
    """What the stream has processed, as the sink of its rows shows it."""

    shown: twin.Shown

    def rows(self, source: str, timestep: int) -> int | None:
        """See `Truth.rows`."""
        return len(self.shown.get(timestep, ())) if source == "in" else None

    def state(self, operator: str, timestep: int) -> int | None:
        """See `Truth.state`."""
        if operator != "sums":
            return None
        return len({row[0] for t, rows in self.shown.items() if t < timestep for row in rows})

    def expires(self, operator: str) -> bool:
        """See `Truth.expires`."""
        return operator != "sums"


def change_of(rng: Random, configuration: Configuration) -> Change:
    """What controllers ask for."""
    del configuration
    return rng.choice(  # type: ignore[no-any-return]
        (
            rc.changes.set_in_flight(rng.randint(1, 3)),
            rc.changes.combine("sums", rng.choice(("on", "off", "auto"))),
            rc.changes.rescale("sums", rng.randint(1, 3)),
            rc.changes.rewrite("sums"),
        )
    )


def controllers_of(seed: int) -> Controllers:
    """The controllers of a schedule. Time passes with every step: those that go by it seldom begin."""
    stage = Stage(seed=seed, sources=("in",), keyed=("sums",), change=change_of, seconds=60.0)
    return Controllers(rng=Random(f"controllers {seed}"), stage=stage)


def simulate(seed: int) -> Counter[str]:
    """One schedule; what happened in it."""
    return scheduled(seed, controlled=seed % CONTROLLED == 0)


def controlled(seed: int) -> Counter[str]:
    """One schedule with controllers; what happened in it."""
    return scheduled(seed, controlled=True)


def scheduled(seed: int, *, controlled: bool) -> Counter[str]:
    """One schedule; what happened in it."""
    rng, happened = Random(seed), Counter({"schedules": 1})
    early = [name for name in ("late", "liked", "more") if rng.random() < 0.5]
    first = tuple(Part(name=name, kind=KINDS[name], serial=seed) for name in early)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coordination, "KEPT", rng.choice((1, 2, 4)))
        count_what_small_limits_do(patch, happened)
        schedule = Schedule(
            world=World(rng=rng),
            texts={1: Text(parts=first)},
            serial=seed,
            controllers=controllers_of(seed) if controlled else None,
        )
        schedule.run()
        if not schedule.over:
            schedule.check()
    return schedule.happened + happened


NEEDED = (
    "added again",
    "added late",
    "added more",
    "added side",
    "backup refused",
    "backup taken up",
    "change refused",
    "dead letters",
    "died",
    "fell asleep",
    "fenced",
    "knocked in vain",
    "outages",
    "planned anew",
    "replaced",
    "signs that could not be given",
    "too large",
    "killed",
    "later output removed",
    "the clock jumps",
    "overlapped driver folder",
    "overlapped publish folder",
    "overlapped unit sweep",
    "refused by a store or folder",
    "refused by the lease",
    "released",
    "removed again",
    "removed late",
    "removed more",
    "removed side",
    "rows of again",
    "rows of late",
    "rows of more",
    "rows of side",
    "added liked",
    "removed liked",
    *(f"disliked by {function}" for function in FUNCTIONS),
    "a change waits",
    "a change that waited is aborted",
    "numbers changed",
    "cut by bytes",
    "in parts",
    "spilled",
)


def test_no_schedule_at_the_seams_loses_or_doubles_a_row(
    thorough: bool, workers: ProcessPoolExecutor
) -> None:
    check_schedules(
        simulate, range(5_000 if thorough else 40), NEEDED, workers, faults=(), brief=not thorough
    )


@pytest.mark.slow
def test_no_schedule_with_controllers_loses_or_doubles_a_row(workers: ProcessPoolExecutor) -> None:
    needed = [f"control: {what}" for what in HAPPENED if what != "timesteps without rows"]
    check_schedules(controlled, range(1_000), (*NEEDED, *needed), workers, faults=())
