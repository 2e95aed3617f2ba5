"""A blocking operation has the outcome of a world that is frozen, changed and let go on."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from rechannel.control import OperatorHandler, TaskView
from rechannel.reconfigure.changes.change import Change
from rechannel.testing import Harness, script
from rechannel.testing.process import Process

HERE = __name__


def as_it_is(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def a_hundred_more(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.set_column(1, "v", pc.add(batch["v"], 100))


class Before(OperatorHandler):
    """Whether the handler ran before the rows, and how many rows of state there were."""

    reads_state = True

    def on_complete(self, task: TaskView) -> list[int]:
        state = None if task.read_state is None else task.read_state()
        return [task.rows_in, 0 if state is None else state.num_rows]

    def merge(self, one: list[int], other: list[int]) -> list[int]:
        return [one[0] + other[0], one[1] + other[1]]


class Changing(rc.control.Controller):
    """Makes one change with a blocking operation."""

    trigger = rc.control.every(timesteps=1)

    def __init__(self, change: Change, at: int) -> None:
        self.change, self.at = change, at

    def on_begin(self, control):
        if control.state is not None or control.timestep < self.at:
            return None
        control.state = "begun"
        return rc.control.operation(Before(), blocking=True, change=self.change)

    def on_complete(self, control, outcome):
        control.state = {"timestep": outcome.timestep, "replies": dict(outcome.replies)}


def stream(in_flight: int) -> tuple[Any, Harness]:
    rows = script("k bigint, v bigint")
    moved = rc.read().memory(rows).map_batches(as_it_is, name="moved")
    sums = moved.key_by("k").aggregate(total=rc.aggregates.sum("v"), name="sums")
    settings = rc.Settings(tasks=2, bins=8, in_flight=in_flight)
    return rows, Harness(sums.write.memory("out"), settings=settings)


def push(rows: Any, timestep: int) -> None:
    rows.push([{"k": k, "v": k * timestep} for k in range(9)])


def state_of(process: Process) -> list[Any]:
    view = process.parts.view
    return view.canonical("sums", process.journal.state, None).to_pylist()


CHANGES = {
    "rescale": rc.changes.rescale("sums", 5),
    "logic": rc.changes.assign_logic("moved", f"{HERE}:a_hundred_more"),
}


@pytest.mark.parametrize("in_flight", [1, 3])
@pytest.mark.parametrize("name", sorted(CHANGES))
def test_the_outcome_is_that_of_freezing_the_world(name: str, in_flight: int):
    rows, running = stream(in_flight)
    process = running.start(controllers=[Changing(CHANGES[name], at=3)])
    for timestep in range(1, 13):
        push(rows, timestep)
        process.step()
        process.step()
    process.run()
    found = process.controllers.board.seat("changing").state
    border = found["timestep"]
    assert 3 < border <= 12
    assert found["replies"]["sums"] == [0, 9]  # all state of before, and none of the rows

    rows, frozen = stream(in_flight)
    process_2 = frozen.start()
    for timestep in range(1, border):
        push(rows, timestep)
    process_2.run()
    assert process_2.journal.state.last_committed == border - 1
    process_2.reconfigure(CHANGES[name])
    process_2.run()  # until it is prepared
    for timestep in range(border, 13):
        push(rows, timestep)
    process_2.run()

    assert running.outputs() == frozen.outputs()
    assert state_of(process) == state_of(process_2)
    (one,), (other,) = (each.changes.coordination.records for each in (process, process_2))
    assert [taken.timestep for taken in one.taken] == [border]
    assert one.phase == other.phase == "done"


def test_the_change_is_seen_in_the_rows_of_its_timestep_and_in_none_before():
    rows, running = stream(1)
    process = running.start(controllers=[Changing(CHANGES["logic"], at=2)])
    for timestep in range(1, 7):
        push(rows, timestep)
        process.run()
    border = process.controllers.board.seat("changing").state["timestep"]
    batch = before = 0
    for timestep, table in running.outputs().items():
        if not table.num_rows:
            assert (
                timestep == border
            )  # the stream was idle, so the operation had a timestep of its own
            before = batch
            continue
        batch += 1
        later = batch - before if timestep > border else 0
        expected = {k: k * sum(range(1, batch + 1)) + 100 * later for k in range(9)}
        assert {row["k"]: row["total"] for row in table.to_pylist()} == expected
    assert (batch, before) == (6, 2)
