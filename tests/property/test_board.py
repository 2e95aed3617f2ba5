"""The fold of controllers' events over random stories that a driver can journal; and how replies are merged."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import rechannel as rc
from rechannel.control import OperatorHandler, TaskView
from rechannel.control.board import LINE_CHARACTERS, LOG_KEPT, Board, Seat
from rechannel.control.events import (
    Answered,
    Called,
    Completed,
    ControlEvent,
    Dropped,
    Failed,
    Handled,
    Installed,
    Paused,
    Removed,
    Unpaused,
)
from rechannel.kernels.tasks.report import ControlReport
from rechannel.model.codec import decode, encode
from rechannel.reconfigure.events import Finished
from rechannel.settings import Settings
from rechannel.testing import Harness, script

NAMES = ("one", "two", "three")

STEPS = 60


@dataclass
class Story:
    """What a driver and its successors may journal. running: callbacks under way, by serial."""

    rng: Random
    board: Board = field(default_factory=Board)
    running: dict[int, str] = field(default_factory=dict)
    last: int = 0
    """The latest intended timestep."""
    committed: int = 0
    time_ms: int = 0
    told: Counter[str] = field(default_factory=Counter)

    def tell(self, event: ControlEvent) -> None:
        """Journal an event."""
        self.board = self.board.after(event)
        self.told[event.kind] += 1

    def at(self, name: str) -> dict[str, Any]:
        """What all events have."""
        self.time_ms += self.rng.randint(0, 3)
        return {"controller": name, "time_ms": self.time_ms}

    def step(self) -> None:
        """One thing happens."""
        things = (self.command, self.command, self.callback, self.callback, self.callback)
        self.rng.choice((*things, self.timestep, self.timestep, self.answer, self.restart))()

    def command(self) -> None:
        """Somebody does something from outside."""
        rng, name = self.rng, self.rng.choice(NAMES)
        if name not in self.board.seats or rng.random() < 0.1:
            self.tell(Installed(**self.at(name), path="m:C", failures=rng.randint(1, 3)))
            return
        kind = rng.choice((Called, Called, Unpaused, Removed, Paused))
        more = {"reason": "a story"} if kind is Paused else {}
        gone = self.board.seats[name].serial
        self.tell(kind(**self.at(name), **more))
        if kind is Removed:
            self.running.pop(gone, None)

    def callback(self) -> None:
        """A callback begins, or one that is under way returns or raises."""
        for name, seat in self.board.seats.items():
            if seat.serial in self.running:
                if self.rng.random() < 0.6:
                    self.returns(name, seat, self.running.pop(seat.serial))
                    return
            elif seat.operation is not None and seat.operation.reports is not None:
                self.running[seat.serial] = "complete"
            elif seat.operation is None and not seat.paused and not seat.pending:
                self.running[seat.serial] = "begin"

    def returns(self, name: str, seat: Seat, callback: str) -> None:
        """A callback has returned, or raised."""
        rng, sent = self.rng, seat.operation
        id_ = sent.id if sent is not None else ""
        if rng.random() < 0.2:
            self.tell(Failed(**self.at(name), callback=callback, operation=id_, error="it"))
            if seat.failures + 1 >= seat.installed.failures:
                self.tell(Paused(**self.at(name), reason="failures", suspended=True))
            return
        requests = tuple({"change": {}} for _ in range(rng.choice((0, 0, 1, 3))))
        sends = callback == "begin" and rng.random() < 0.8
        self.tell(
            Handled(
                **self.at(name),
                callback=callback,
                operation=f"{name}-{seat.serial}.{seat.sent + 1}" if sends else id_,
                state={"n": self.time_ms},
                moment={"calls": seat.calls} if callback == "begin" else None,
                urgent=rng.random() < 0.5,
                changes=sends and bool(requests) and rng.random() < 0.5,
                requests=requests,
                notes=("x" * rng.choice((1, 3 * LINE_CHARACTERS)),) * rng.choice((0, 1, 70)),
            )
        )

    def answer(self) -> None:
        """A request is answered, or a change that an operation waits for ends badly."""
        for name, seat in self.board.seats.items():
            if seat.pending and self.rng.random() < 0.5:
                number, refused = seat.pending[0].number, self.rng.random() < 0.4
                how = {"refusal": "no"} if refused else {"reconfiguration": f"r{self.time_ms}"}
                self.tell(Answered(**self.at(name), request=number, **how))
            sent = self.board.seats[name].operation
            waits = sent is not None and sent.reconfiguration and sent.timestep is None
            if sent is not None and waits and self.rng.random() < 0.2:
                self.tell(Dropped(**self.at(name), operation=sent.id, reason="aborted"))
        if self.rng.random() < 0.3:
            over = Finished(id="r1", time_ms=self.time_ms, outcome=self.rng.choice(OUTCOMES))
            self.board = self.board.changed(over)

    def timestep(self) -> None:
        """A timestep begins, or the next one is committed."""
        if self.committed < self.last and self.rng.random() < 0.6:
            self.committed += 1
            travelled = self.board.travelling(self.committed)
            report = ControlReport(operation="x", replies={"a": 1})
            self.board = self.board.committed(
                [Completed(operation=o.id, reports=(report,)) for o in travelled]
            )
            self.told["completed"] += len(travelled)
            return
        self.last += 1
        ready = [o.id for o in self.board.waiting if not o.request or o.reconfiguration]
        self.board = self.board.intended(ready, self.last)

    def restart(self) -> None:
        """Another driver takes over: it may withdraw timesteps, and may lack controllers, or fail at their handlers."""
        if self.rng.random() < 0.6:
            return
        self.running.clear()
        if self.committed < self.last and self.rng.random() < 0.5:
            since = self.rng.randint(self.committed + 1, self.last)
            self.told["withdrawn"] += any(
                self.board.travelling(t) for t in range(since, self.last + 1)
            )
            self.board, self.last = self.board.withdrawn(since), since - 1
        for name, seat in self.board.seats.items():
            sent = seat.operation
            if sent is not None and self.rng.random() < 0.2:
                self.tell(Dropped(**self.at(name), operation=sent.id, reason="absent"))
            elif sent is not None and self.rng.random() < 0.1:
                self.tell(Failed(**self.at(name), callback="begin", operation=sent.id, error="it"))
        data = json.loads(json.dumps(encode(self.board), sort_keys=True))
        assert decode(Board, data) == self.board
        assert list(decode(Board, data).seats) == list(self.board.seats)


OUTCOMES = ("done", "aborted", "failed")


def check(board: Board) -> None:
    """What always holds."""
    seats = list(board.seats.values())
    assert [s.serial for s in seats] == sorted({s.serial for s in seats})
    operations = [s.operation.id for s in seats if s.operation is not None]
    assert len(operations) == len(set(operations))
    for seat in seats:
        assert len(seat.log) <= LOG_KEPT
        assert all(len(line.text) <= LINE_CHARACTERS for line in seat.log)
        numbers = [pending.number for pending in seat.pending]
        assert numbers == sorted(set(numbers))
        assert all(number <= seat.requested for number in numbers)
        sent = seat.operation
        if sent is not None and sent.request and not sent.reconfiguration:
            assert sent.request in numbers, "an operation waits for an answer that will not come"


def test_no_story_that_a_driver_can_journal_makes_the_fold_raise() -> None:
    told: Counter[str] = Counter()
    for seed in range(200):
        story = Story(Random(seed))
        for _ in range(STEPS):
            story.step()
            check(story.board)
        told += story.told
    kinds = {kind.kind for kind in ControlEvent.__subclasses__()}
    assert {kind for kind in kinds if told[kind] > 20} == kinds, told
    assert min(told["completed"], told["withdrawn"]) > 20


# Replies -----------------------------------------------------------------------------------------


class Summing(OperatorHandler):
    """Counts tasks' keys, and says which channels and which hashes there are."""

    heaviest = 1_000
    reads_state = True

    def on_complete(self, task: TaskView) -> Any:
        state = 0 if task.read_state is None else task.read_state().num_rows
        hashes = sorted(key.hash for key in task.heaviest)
        return {"keys": task.keys, "state": state, "hashes": hashes}

    def merge(self, one: Any, other: Any) -> Any:
        return {
            "keys": one["keys"] + other["keys"],
            "state": one["state"] + other["state"],
            "hashes": sorted({*one["hashes"], *other["hashes"]}),
        }


class Asking(rc.control.Controller):
    trigger = rc.control.every(timesteps=1)

    def on_init(self) -> Any:
        return {}

    def on_begin(self, control: Any) -> Any:
        return rc.control.operation(Summing())

    def on_complete(self, control: Any, outcome: Any) -> None:
        assert not outcome.failures
        control.state = {**control.state, str(outcome.timestep): outcome.replies}


def replies(rng: Random | None) -> dict[str, Any]:
    """What an operation in every timestep brings. rng: decides on tasks and orders of arrival; None = the plainest."""
    rows = script(
        "k bigint, j bigint",
        [[{"k": k * t % 11, "j": k % 5} for k in range(20)] for t in range(1, 5)],
        partitions=1 if rng is None else rng.randint(1, 4),
    )
    read = rc.read().memory(rows)
    first = read.key_by("k").aggregate(n=rc.aggregates.count(), name="first")
    second = first.key_by("n").aggregate(k=rc.aggregates.max("k"), name="second")
    both = read.select("k").union(second.select("k"))
    third = both.key_by("k").aggregate(n=rc.aggregates.count(), name="third")
    harness = Harness(
        third.write.memory("out"),
        settings=Settings(tasks=1 if rng is None else rng.randint(1, 5), in_flight=1, bins=7),
        arrival=list if rng is None else lambda blobs: rng.sample(blobs, len(blobs)),
    )
    process = harness.start(controllers=[Asking()])
    process.run()
    state: dict[str, Any] = process.controllers.board.seat("asking").state
    return state


def test_replies_depend_neither_on_the_order_of_arrival_nor_on_the_number_of_tasks() -> None:
    plain = replies(None)
    assert any(reply["third"]["hashes"] and reply["third"]["state"] for reply in plain.values())
    for seed in range(12):
        assert replies(Random(seed)) == plain, f"seed {seed}"
