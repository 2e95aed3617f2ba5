"""Controllers that were installed by their import path, and crashes."""

from __future__ import annotations

import pytest

from rechannel.control.events import Called
from rechannel.control.loading import Wanted
from rechannel.serve.allowed import Allowed
from rechannel.testing import Crash, Fault, FaultKind, Harness
from rechannel.testing.process import Process
from tests.unit.engine.control import test_host
from tests.unit.engine.control.test_host import command, harness, seat

HOST = "tests.unit.engine.control.test_host"
NAMES = ("Moving", "Watching")


def install(process: Process, *names: str) -> None:
    """Install controllers of the module that is allowed, unless they are there."""
    for name in names:
        if name.lower() not in process.controllers.board.seats:
            wanted = Wanted(path=f"{HOST}:{name}")
            answer = process.controllers.install(wanted.made(Allowed(modules=(HOST,)).controller))
            process.driver.step()
            answer.result(0)


def run_to_the_end(stream: Harness, faults: list[Fault | None]) -> Process:
    process = stream.start(allow=[HOST], faults=faults)
    install(process, *NAMES)
    if not seat(process, "moving").calls:
        command(process, Called, "moving")
    process.run()
    return process


@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.AFTER])
@pytest.mark.parametrize("stop", range(4, 44, 3))
def test_they_go_on_where_they_were_after_a_crash(stop: int, kind: FaultKind):
    stream = harness(steps=3)
    with pytest.raises(Crash):
        run_to_the_end(stream, [*[None] * stop, Fault(kind=kind)]).stop()
    process = run_to_the_end(stream, [])
    state = seat(process, "moving").state
    assert [state.count("begun"), len(state)] == [1, 2]
    rows = seat(process, "watching").state["rows"]
    assert rows["memory"] == rows["counts"] > 0
    (record,) = process.changes.coordination.records
    assert record.cause == "controller 'moving': operation moving-1.1"
    assert process.position.configuration.operators["counts"].tasks == 4
    assert [table.num_rows for table in stream.outputs().values()][:3] == [10, 10, 10]


def test_without_the_allowlist_their_operations_are_dropped_and_their_state_stays():
    stream = harness(steps=3)
    process = stream.start()
    install(process, "Watching")
    while seat(process, "watching").operation is None:
        assert process.step()
    before = seat(process, "watching").state
    process = stream.start()
    there = seat(process, "watching")
    assert (there.operation, there.state) == (None, before)
    assert "is dropped: it was installed by its import path" in there.log[-1].text
    process.run()
    assert not process.controllers.runs("watching")
    process = stream.start(allow=[HOST])
    assert process.controllers.runs("watching")
    command(process, Called, "watching")
    process.run()
    assert seat(process, "watching").state["operations"] == 1


def test_one_that_a_program_gives_under_its_name_is_that_of_the_program():
    stream = harness(steps=1)
    install(stream.start(), "Watching")
    process = stream.start(controllers=[test_host.Watching()], allow=[HOST])
    assert process.controllers.runs("watching")
    assert seat(process, "watching").installed.parameters is None
