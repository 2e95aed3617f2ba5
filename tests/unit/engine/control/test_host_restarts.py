"""What a driver's controllers leave to the next driver, and to a controller that is installed under their name."""

from __future__ import annotations

import pytest

import rechannel as rc
from rechannel.control.events import Called, Paused, Removed, Unpaused
from rechannel.testing import Crash, Fault, FaultKind, Harness
from tests.unit.engine.control.test_host import Watching, command, harness, seat

CRASH = Fault(kind=FaultKind.BEFORE)


class Counting(rc.control.Controller):
    """Counts how often it has begun."""

    trigger = rc.control.on("change_done")

    def on_init(self):
        return 0

    def on_begin(self, control):
        control.state += 1


def test_a_change_that_was_done_before_a_crash_is_an_event_for_the_next_driver():
    stream = harness()
    first = stream.start(controllers=[Counting()])
    command(first, Paused, "counting", reason="so that it does not begin yet")
    first.reconfigure(rc.changes.set_in_flight(3))
    first.run()
    assert seat(first, "counting").state == 0
    second = stream.start(controllers=[Counting()])
    command(second, Unpaused, "counting")
    second.run()
    assert seat(second, "counting").state == 1
    third = stream.start(controllers=[Counting()])
    third.run()
    assert seat(third, "counting").state == 1


def test_a_callback_of_a_controller_that_was_removed_is_nothing_to_the_next_one_of_its_name():
    process = harness(steps=0).start(controllers=[rc.control.install(Counting(), name="one")])
    command(process, Called, "one")
    assert len(process.executor) == 1  # its callback is under way
    command(process, Removed, "one")
    answer = process.controllers.install(rc.control.install(Watching(), name="one"))
    process.driver.step()
    answer.result(0)
    process.run()
    assert seat(process, "one").serial == 2
    assert set(seat(process, "one").state) == {"operations", "rows"}


class Asking(rc.control.Controller):
    """Requests a change."""

    def on_begin(self, control):
        control.reconfigure(rc.changes.set_in_flight(3))


def test_an_answer_to_a_controller_that_was_removed_is_nothing_to_the_next_one_of_its_name():
    process = harness(steps=0).start(controllers=[rc.control.install(Asking(), name="one")])
    command(process, Called, "one")
    while not process.journal.state.coordination.records:
        process.step()
    removed = process.controllers.command(Removed, "one")
    installed = process.controllers.install(rc.control.install(Watching(), name="one"))
    process.run()
    removed.result(0)
    installed.result(0)
    assert "request" not in str(seat(process, "one").log)


def test_handlers_of_operations_that_are_over_are_forgotten():
    process = harness(steps=6).start(controllers=[Watching()])
    process.run()
    for _ in range(3):
        command(process, Called, "watching")
        process.run()
    assert seat(process, "watching").state["operations"] > 3
    assert len(process.controllers.messages) <= 2


class OnlyOnce(rc.control.Controller):
    """Sends an operation, and cannot make its handler again."""

    refuses = False

    def on_begin(self, control):
        if self.refuses:
            raise KeyError("no such thing")
        return rc.control.operation(rc.control.OperatorHandler())


class Never(OnlyOnce):
    refuses = True


def test_a_handler_that_cannot_be_made_again_counts_as_a_failure():
    stream = harness(steps=1)
    first = stream.start(controllers=[rc.control.install(OnlyOnce(), name="one")])
    first.run()
    command(first, Called, "one")
    while seat(first, "one").operation is None:
        first.step()
    again = rc.control.install(Never(), name="one", failures=1)
    second = stream.start(controllers=[again])
    assert seat(second, "one").operation is None
    assert seat(second, "one").suspended
    command(second, Unpaused, "one")
    second.run()
    assert not seat(second, "one").suspended


def call_until(stream: Harness, one: rc.control.Installation, faults: list[Fault | None]) -> None:
    """Call a controller on an idle stream."""
    process = stream.start(controllers=[one], faults=faults)
    command(process, Called, "one")
    process.run()


def test_a_controller_goes_on_that_had_begun_before_the_first_timestep():
    found = set()
    for stop in range(1, 9):
        stream = harness(steps=0)
        one = rc.control.install(OnlyOnce(), name="one")
        with pytest.raises(Crash):
            call_until(stream, one, [*[None] * stop, CRASH])
        before = stream.journal_state()
        second = stream.start(controllers=[one])
        if not seat(second, "one").calls:
            command(second, Called, "one")
        second.run()
        assert (seat(second, "one").sent, seat(second, "one").operation) == (1, None)
        found.add((bool(before.board.waiting), before.last_intended))
    assert (True, None) in found
