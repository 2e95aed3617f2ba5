"""Faults of the control plane, put in one at a time: the schedules with controllers find each of them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from rechannel.control.board import Board, Seat, SentOperation
from rechannel.control.events import Handled
from rechannel.engine.control.callbacks import Callback, Returned
from rechannel.engine.control.host import ControlHost
from rechannel.engine.control.messages import Messages
from rechannel.kernels.tasks.control import Controls
from tests.property import test_seams, test_simulation

SCHEDULES = 300
PIECE = 10

Break = Callable[[pytest.MonkeyPatch], None]

SCHEDULE: dict[str, Callable[[int], Any]] = {
    "simulation": test_simulation.controlled,
    "seams": test_seams.controlled,
}


def requests_made_twice(patch: pytest.MonkeyPatch) -> None:
    """The journal's fold does not note which request of a controller was accepted."""
    patch.setattr(Board, "_accepted", lambda self, event: self)


def operations_lost_with_a_timestep(patch: pytest.MonkeyPatch) -> None:
    """A timestep that is withdrawn keeps its operations."""
    patch.setattr(Board, "withdrawn", lambda self, timestep: self)


def state_of_a_failure_kept(patch: pytest.MonkeyPatch) -> None:
    """What a callback has assigned before it raised is kept."""
    failed = Callback._failed

    def kept(self: Any, callback: str, id_: str, error: Any) -> Any:
        event = failed(self, callback, id_, error)
        if callback != "complete" or self.control.state is None:
            return event
        return replace(self._handled(callback, id_, None), time_ms=event.time_ms)

    patch.setattr(Callback, "_failed", kept)


def handlers_from_the_latest_state(patch: pytest.MonkeyPatch) -> None:
    """After a restart, `on_begin` runs again with the state that it has left."""
    made = Callback.again

    def again(self: Any, sent: SentOperation) -> Returned:
        return made(replace(self, state=self.seat.state), sent)

    patch.setattr(Callback, "again", again)


def begun_twice_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """After a restart, the state of an `on_begin` that runs again counts once more."""
    remade = ControlHost._remade

    def counted(self: Any, seat: Seat, position: Any) -> Any:
        events = remade(self, seat, position)
        sent = seat.operation
        if events or sent is None:
            return events
        hosted = self._residents.get(seat.name)
        made = self._callback(hosted, seat, position()).begin()
        if isinstance(made.event, Handled):
            again = Handled(
                controller=seat.name,
                time_ms=made.event.time_ms,
                callback="begin",
                operation="",
                state=made.event.state,
            )
            return [again]
        return []

    patch.setattr(ControlHost, "_remade", counted)


def messages_left_behind(patch: pytest.MonkeyPatch) -> None:
    """A timestep that runs again runs without its operations."""
    patch.setattr(Messages, "again", lambda self, timestep: ())


def replies_on_every_channel(patch: pytest.MonkeyPatch) -> None:
    """Replies travel with every blob of a task, not with one."""
    body = Controls._body
    patch.setattr(Controls, "_body", lambda self, *, with_replies: body(self, with_replies=True))


def handlers_after_the_rows(patch: pytest.MonkeyPatch) -> None:
    """Blocking handlers run after the rows of their timestep."""
    run = Controls.run

    def late(self: Any, view: Any, *, blocking: bool) -> None:
        if not blocking:
            run(self, view, blocking=True)
            run(self, view, blocking=False)

    patch.setattr(Controls, "run", late)


def callbacks_by_name(patch: pytest.MonkeyPatch) -> None:
    """What a callback returns goes to whatever controller has its name now."""
    taken = ControlHost._taken

    def by_name(self: Any, serial: int, returned: Returned) -> Any:
        seat = self.board.seats.get(returned.event.controller)
        return taken(self, serial if seat is None else seat.serial, returned)

    patch.setattr(ControlHost, "_taken", by_name)


def operations_without_their_change(patch: pytest.MonkeyPatch) -> None:
    """A blocking operation does not wait for its change."""
    patch.setattr(
        Messages, "_may_travel", lambda self, sent, decision, coordination: sent.id in self._sent
    )


def calls_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Who is called by hand on an idle stream waits for rows."""
    patch.setattr(Messages, "wants_timestep", lambda self, decision: False)


def handlers_for_ever(patch: pytest.MonkeyPatch) -> None:
    """A driver keeps the handlers of operations that are over."""
    patch.setattr(Messages, "forget", lambda self: None)


BROKEN: dict[str, tuple[str, Break]] = {
    made.__name__: (schedules, made)
    for schedules, made in (
        ("simulation", requests_made_twice),
        ("seams", operations_lost_with_a_timestep),
        ("simulation", state_of_a_failure_kept),
        ("simulation", handlers_from_the_latest_state),
        ("simulation", begun_twice_after_a_restart),
        ("simulation", messages_left_behind),
        ("simulation", replies_on_every_channel),
        ("simulation", handlers_after_the_rows),
        ("simulation", callbacks_by_name),
        ("simulation", operations_without_their_change),
        ("simulation", calls_forgotten),
        ("simulation", handlers_for_ever),
    )
}


def broken(name: str, first: int) -> tuple[int, str] | None:
    """The first schedule of a piece that fails with a fault, and how. Without it, that one passes."""
    schedules, break_ = BROKEN[name]
    for seed in range(first, first + PIECE):
        with pytest.MonkeyPatch.context() as patch:
            break_(patch)
            try:
                SCHEDULE[schedules](seed)
                continue
            except Exception as error:
                failed = seed, f"{type(error).__name__}: {error}"
        SCHEDULE[schedules](seed)
        return failed
    return None


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_what_a_fault_replaces_exists(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        BROKEN[name][1](patch)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_fault_that_is_put_in_is_found(name: str, workers: ProcessPoolExecutor) -> None:
    for first in range(0, SCHEDULES, PIECE):
        failed = workers.submit(broken, name, first).result()
        if failed is not None:
            print(f"{name}: schedule {failed[0]}: {failed[1][:200]}")
            return
    pytest.fail(f"{SCHEDULES} schedules do not find {name}")
