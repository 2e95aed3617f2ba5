"""What a host makes of things that happen at the same time: calls, pauses, requests, restarts."""

from __future__ import annotations

from concurrent.futures import Executor, Future

import rechannel as rc
from rechannel.control.board import Seat
from rechannel.control.events import Called, Paused, Unpaused
from rechannel.engine.journal.entries import Controlling, Entry
from rechannel.testing import Harness
from tests.unit.engine.control.test_host import command, harness, seat


class Quiet(rc.control.Controller):
    """Looks at every timestep, and has nothing to say."""

    trigger = rc.control.every(timesteps=1)
    looked = 0

    def on_init(self):
        return {"threshold": 5}

    def on_begin(self, control):
        self.looked += 1


def controlling(stream: Harness) -> list[Controlling]:
    bodies = (
        Entry.from_bytes(stream.store.read(key), name=key).body
        for key in sorted(stream.store.list("journal/"))
    )
    return [body for body in bodies if isinstance(body, Controlling)]


def test_a_callback_that_leaves_nothing_writes_nothing():
    stream, quiet = harness(steps=12), Quiet()
    process = stream.start(controllers=[quiet])
    process.run()
    assert quiet.looked >= 12
    assert len(controlling(stream)) == 2  # its installation, and when it first began
    again = Quiet()
    stream.start(controllers=[again]).run()
    assert again.looked == 1


class Answering(rc.control.Controller):
    """Counts how often it was called, and may send an operation."""

    sends = False

    def on_init(self):
        return 0

    def on_begin(self, control):
        control.state += 1
        return rc.control.operation(rc.control.OperatorHandler()) if self.sends else None


class Sending(Answering):
    sends = True


def test_a_call_during_a_callback_that_sends_nothing_is_answered_by_the_next_one():
    process = harness(steps=0).start(controllers=[rc.control.install(Answering(), name="one")])
    command(process, Called, "one")
    assert len(process.executor) == 1  # its on_begin is under way
    command(process, Called, "one")
    process.run()
    assert seat(process, "one").state == 2


def test_a_call_during_a_callback_that_sends_an_operation_is_answered_by_that():
    process = harness(steps=0).start(controllers=[rc.control.install(Sending(), name="one")])
    command(process, Called, "one")
    assert len(process.executor) == 1
    command(process, Called, "one")
    process.run()
    assert (seat(process, "one").state, seat(process, "one").sent) == (1, 1)


def test_a_controller_that_is_paused_while_it_begins_has_not_begun():
    process = harness(steps=0).start(controllers=[rc.control.install(Sending(), name="one")])
    command(process, Called, "one")
    assert len(process.executor) == 1
    command(process, Paused, "one", reason="wait")
    process.run()
    assert (seat(process, "one").state, seat(process, "one").sent) == (0, 0)
    command(process, Unpaused, "one")
    process.run()
    assert (seat(process, "one").state, seat(process, "one").sent) == (1, 1)


class Wanting(rc.control.Controller):
    """Requests a number of tasks when it is called, at midnight for ever or now."""

    def __init__(self, tasks: int) -> None:
        self.tasks = tasks

    def on_begin(self, control):
        control.reconfigure(rc.changes.rescale("counts", self.tasks))


def named(name: str, tasks: int, priority: int) -> rc.control.Installation:
    return rc.control.install(Wanting(tasks), name=name, priority=priority)


def answers(there: Seat) -> list[str]:
    return [line.text for line in there.log if line.text.startswith("request")]


def test_priorities_are_judged_when_a_request_is_accepted():
    controllers = [named("lowest", 2, -1), named("high", 3, 5), named("low", 4, 0)]
    process = harness(steps=3).start(controllers=controllers)
    command(process, Called, "lowest")
    process.executor.run(0)
    while not process.changes.coordination.open:
        process.driver.step()
    assert process.changes.coordination.open[0].cause == "controller 'lowest'"
    calls = [process.controllers.command(Called, name) for name in ("high", "low")]
    process.driver.step()
    assert all(call.done() for call in calls)
    while len(process.executor):
        process.executor.run(
            0
        )  # both requests come in the same turn, and meet the change of the lowest
    process.run()
    first, second, *_ = process.changes.coordination.records
    assert (first.phase, second.cause) == ("superseded", "controller 'high'")
    assert process.position.configuration.operators["counts"].tasks == 3
    (refused,) = answers(seat(process, "low"))
    assert "its controller has priority 5, this one 0" in refused


class Uninitialised(rc.control.Controller):
    """Cannot say with what it begins, once something that it needs is down."""

    down = False

    def on_init(self):
        if self.down:
            raise ConnectionError("nobody answers")
        return 1


class Down(Uninitialised):
    down = True


def test_a_job_goes_on_without_a_controller_that_it_had_and_whose_on_init_fails():
    stream = harness(steps=3)
    stream.start(controllers=[rc.control.install(Uninitialised(), name="one")]).run()
    second = stream.start(controllers=[rc.control.install(Down(), name="one")])
    second.run()
    assert "nobody answers" in second.controllers.absent("one")
    assert seat(second, "one").state == 1
    third = stream.start(controllers=[rc.control.install(Uninitialised(), name="one")])
    assert third.controllers.absent("one") is None


class Measuring(rc.control.Controller):
    """Sends an operation if it knows its load, which a driver does not when it has just started."""

    def on_begin(self, control):
        if control.rows_per_bin:
            return rc.control.operation(rc.control.OperatorHandler())
        return None


def test_an_operation_that_cannot_be_made_again_is_dropped_and_is_no_failure():
    stream = harness(steps=2)
    one = rc.control.install(Measuring(), name="one", failures=1)
    first = stream.start(controllers=[one])
    first.run()
    command(first, Called, "one")
    while seat(first, "one").operation is None:
        first.step()
    second = stream.start(controllers=[one])
    there = seat(second, "one")
    assert (there.operation, there.failed, there.suspended) == (None, 0, False)
    assert "it depends on more than its state" in there.log[-1].text
    second.run()


class Broken(Executor):
    """Cannot call anything."""

    def submit(self, fn, /, *args, **kwargs):
        future: Future = Future()
        future.set_exception(RuntimeError("can't start new thread"))
        return future


def test_a_callback_that_cannot_be_called_has_failed():
    process = harness(steps=3).start(controllers=[rc.control.install(Answering(), name="one")])
    process.controllers._thread._own = Broken()
    for _ in range(3):
        command(process, Called, "one")
        process.run()
    there = seat(process, "one")
    assert there.suspended
    assert "can't start new thread" in there.log[1].text
