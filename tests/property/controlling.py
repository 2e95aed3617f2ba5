"""Controllers in the schedules: which there are, what is done with them, and what has to hold at the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

import rechannel as rc
from rechannel.control.board import LOG_KEPT
from rechannel.control.controller import Installation
from rechannel.control.events import Called, Paused, Removed, Unpaused
from rechannel.errors import NotReadyError, RefusedError
from rechannel.model.codec import encode
from rechannel.state.keys import JOURNAL, SNAPSHOTS, number_of
from rechannel.testing import MemoryStore, Process
from tests.property.control_programs import KINDS, Planned, Stage, Typed, random_trigger
from tests.property.twin_control import Truth, Twin

MOST_BYTES = 100_000
"""Of a controller in the journal: its state, its log, an operation with its replies, requests."""

HAPPENED = (
    "asked to be called",
    "asked to be paused",
    "asked to be removed",
    "asked to be unpaused",
    "begin raised",
    "blocking completed",
    "blocking refused",
    "blocking with a change completed",
    "called in the end",
    "complete raised",
    "completed after a restart",
    "controller dropped",
    "handlers failed",
    "heaviest keys seen",
    "installed again",
    "installed live",
    "non-blocking completed",
    "operation withdrawn",
    "removed with an operation",
    *(f"replies of {kind}" for kind in sorted(set(KINDS))),
    "request accepted",
    "request refused",
    "rows compared",
    "sent to some operators",
    "state compared",
    "suspended",
    "timesteps without rows",
)
"""What has to have happened in all schedules together."""

SELDOM = ("complete raised", "heaviest keys seen", "operation withdrawn", "suspended")
"""What a few dozen schedules may lack."""


class JournalledStore(MemoryStore):
    """A store in memory that remembers every entry of the journal."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[int, bytes] = {}

    def create(self, key: str, data: bytes) -> bool:
        """See `Store.create`. A number that was deleted and is created again is taken back by whoever does that."""
        made = super().create(key, data)
        number = number_of(key) if key.startswith(JOURNAL) else None
        if made and number is not None:
            self.entries.setdefault(number, bytes(data))
        return made

    def put_back(self, data: Mapping[str, bytes]) -> None:
        """What a backup had, and nothing else."""
        self._data = dict(data)
        numbers = [number_of(key) for key in data if key.startswith((JOURNAL, SNAPSHOTS))]
        last = max((number for number in numbers if number is not None), default=0)
        self.entries = {n: entry for n, entry in self.entries.items() if n <= last}


@dataclass(kw_only=True)
class Controllers:
    """Those of one schedule. calm: no callback raises."""

    rng: Random
    stage: Stage
    happened: Counter[str] = field(default_factory=Counter)
    calm: bool = False
    live: int = 0
    given: dict[str, Installation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("one", "two", "three")[: self.rng.randint(1, 3)]:
            self.given[name] = self.installation(name)

    def installation(self, name: str) -> Installation:
        """A controller as it is installed."""
        kind = self.rng.choice((Planned, Typed))
        return rc.control.install(
            kind(name, self.stage, random_trigger(self.rng, self.stage.seconds), self.fails),
            name=name,
            priority=self.rng.randint(0, 2),
            dry_run=self.rng.random() < 0.1,
            seconds=60.0,
            failures=self.rng.choice((1, 2, 3)),
        )

    def fails(self, callback: str) -> bool:
        """Whether a callback raises."""
        del callback
        return not self.calm and self.rng.random() < 0.1

    def program(self, *, calm: bool) -> list[Installation]:
        """Those that a driver is started with: now and then one is missing, or has other settings."""
        self.calm = calm
        if calm:
            return list(self.given.values())
        for name in self.given:
            if self.rng.random() < 0.1:
                self.given[name] = self.installation(name)
        return [each for each in self.given.values() if self.rng.random() < 0.9]

    def disturb(self, process: Process) -> None:
        """Do something from outside, now and then."""
        seats = process.controllers.board.seats
        if self.rng.random() < 0.03:
            self.live += self.rng.random() < 0.5
            self.install(process, self.rng.choice((f"live-{self.live}", *self.given)))
        if not seats or self.rng.random() >= 0.12:
            return
        name = self.rng.choice(sorted(seats))
        kind: Any = self.rng.choice((Called, Called, Paused, Unpaused, Unpaused, Removed))
        reason = {"reason": "a schedule"} if kind is Paused else {}
        process.controllers.command(kind, name, **reason).add_done_callback(
            lambda answer: self.note(f"asked to be {kind.kind}", answer)
        )
        if kind is Removed and self.rng.random() < 0.5:
            self.install(process, name)  # another one, before anything else happens

    def install(self, process: Process, name: str) -> None:
        """Install one while the stream runs."""
        answer = process.controllers.install(self.installation(name))
        answer.add_done_callback(lambda done: self.note("installed live", done))

    def note(self, what: str, answer: Any) -> None:
        """Count an answer."""
        error = None if answer.cancelled() else answer.exception()
        if isinstance(error, NotReadyError | RefusedError):
            self.happened["controller not there, or there already"] += 1
        elif error is None:
            self.happened[what] += 1

    def look(self, process: Process) -> None:
        """Nothing grows."""
        host = process.controllers
        seats = host.board.seats
        for seat in seats.values():
            assert len(seat.log) <= LOG_KEPT
            assert len(seat.pending) <= 3
        assert len(host.messages) <= 2 * len(seats) + 1, "handlers of operations that are over stay"

    def finish(self, process: Process, step: Callable[[], bool]) -> None:
        """In the end every controller is called once more: no operation was lost for ever, no request either."""
        self.calm = True
        self.look(process)
        host = process.controllers
        for name, seat in host.board.seats.items():
            if seat.paused:
                host.command(Unpaused, name)
            host.command(Called, name)
        while step() or len(process.executor):  # a look at an idle stream may begin to fetch state
            pass
        for name, seat in host.board.seats.items():
            sent = seat.operation
            if sent is not None:  # only what is content with a timestep that has rows
                waits = sent.timestep is None and not sent.urgent
                assert waits, f"{name} waits for {sent} for ever"
            assert not seat.pending, f"{name} waits for answers for ever: {seat.pending}"
            size = len(json.dumps(encode(seat)))
            assert size <= MOST_BYTES, f"{name} has {size} bytes in the journal"
            if host.runs(name) and not (seat.suspended and seat.lost):  # its handlers may all fail
                assert not seat.paused
                assert (seat.begun or {}).get("calls") == seat.calls, f"{name} was called in vain"
                self.happened["called in the end"] += 1

    def check(self, entries: Mapping[int, bytes], truth: Truth, process: Process) -> None:
        """Compare with the twin."""
        twin = Twin(stage=self.stage, truth=truth)
        twin.run(entries)
        seats = process.controllers.board.seats
        assert list(seats) == list(twin.seats)
        for name, seat in seats.items():
            there = twin.seats[name]
            assert (seat.serial, seat.state) == (there.serial, asdict(there.state)), name
            assert (seat.operation and seat.operation.id) == (there.sent and there.sent.id), name
            assert seat.lost == there.lost, name
            assert not there.pending, f"{name}: {there.pending}"
        for what, count in (twin.happened + self.happened).items():
            self.happened[what] = count
