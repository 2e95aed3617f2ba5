"""Controllers in a running stream, in this process."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.control import ControlChannel, OperatorHandler, TaskView
from rechannel.control.board import Seat
from rechannel.control.events import Called, Paused, Removed, Unpaused
from rechannel.errors import NotReadyError, RefusedError
from rechannel.testing import Crash, Fault, FaultKind, Harness, script
from rechannel.testing.process import Process
from tests.unit.control.library.skewed import uncombined


class Rows(OperatorHandler):
    """Counts rows."""

    def on_complete(self, task: TaskView) -> int:
        return task.rows_in

    def merge(self, one: int, other: int) -> int:
        return one + other


class Watching(rc.control.Controller):
    """Sums up how many rows every operator has received."""

    trigger = rc.control.every(timesteps=1)

    def on_init(self):
        return {"operations": 0, "rows": {}}

    def on_begin(self, control):
        return rc.control.operation(Rows())

    def on_complete(self, control, outcome):
        rows = dict(control.state["rows"])
        for operator, count in outcome.replies.items():
            rows[operator] = rows.get(operator, 0) + count
        control.state = {"operations": control.state["operations"] + 1, "rows": rows}


def harness(steps: int = 4, **options: Any) -> Harness:
    rows = script("k bigint", [[{"k": k} for k in range(10)] for _ in range(steps)])
    counts = rc.read().memory(rows).key_by("k").aggregate(n=rc.aggregates.count(), name="counts")
    return Harness(counts.write.memory("out"), **options)


def seat(process: Process, name: str) -> Seat:
    return process.controllers.board.seat(name)


def command(process: Process, kind: Any, name: str, **fields: Any) -> None:
    answer = process.controllers.command(kind, name, **fields)
    process.driver.step()
    answer.result(0)


def test_an_operation_visits_every_task_and_its_replies_are_merged():
    process = harness().start(controllers=[Watching()])
    process.run()
    state = seat(process, "watching").state
    assert state["operations"] >= 1
    assert state["rows"]["memory"] == state["rows"]["counts"] == 10 * state["operations"]


class Rescaling(rc.control.Controller):
    """Adds a task once."""

    trigger = rc.control.every(timesteps=1)

    def on_init(self):
        return False

    def on_begin(self, control):
        if not control.state:
            control.state = True
            control.reconfigure(rc.changes.rescale("counts", 3), reason="it has to")


def test_a_request_is_carried_out_once_and_names_its_cause():
    process = harness().start(controllers=[Rescaling()])
    process.run()
    (record,) = process.changes.coordination.records
    assert record.cause == "controller 'rescaling': it has to"
    assert process.position.configuration.operators["counts"].tasks == 3
    assert [line.text for line in seat(process, "rescaling").log] == [
        "request 1: reconfiguration r1"
    ]


def test_a_dry_run_only_notes_its_requests():
    dry = rc.control.install(Rescaling(), dry_run=True)
    process = harness().start(controllers=[dry])
    process.run()
    assert process.changes.coordination.records == ()
    assert [line.text for line in seat(process, "rescaling").log] == [
        "request 1: refused: dry run: it is not carried out"
    ]


class Raising(rc.control.Controller):
    trigger = rc.control.every(timesteps=1)

    def on_begin(self, control):
        control.state = "never kept"
        raise KeyError("no such thing")


def test_a_controller_that_keeps_failing_is_suspended_and_the_stream_goes_on():
    stream = harness(steps=8)
    process = stream.start(controllers=[Raising()])
    process.run()
    there = seat(process, "raising")
    assert there.suspended
    assert there.paused == "3 callbacks in a row have failed"
    assert "KeyError: 'no such thing'" in there.log[0].text
    assert there.state is None
    assert list(stream.outputs()) == list(range(1, 9))


class Wrong(OperatorHandler):
    """Raises in one task, and replies with too much in another operator."""

    def on_complete(self, task: TaskView) -> object:
        if task.operator == "memory":
            return "x" * 2_000
        raise ZeroDivisionError(f"task {task.task}")


class Asking(rc.control.Controller):
    """Sends one handler, once, and keeps what comes of it."""

    handler: OperatorHandler = Wrong()
    options: dict[str, Any] = {"reply_bytes": 1_000}  # noqa: RUF012 - of tests

    def on_begin(self, control):
        return rc.control.operation(self.handler, **self.options)

    def on_complete(self, control, outcome):
        failures = sorted((f.operator, f.error.strip().splitlines()[-1]) for f in outcome.failures)
        control.state = {
            "timestep": outcome.timestep,
            "replies": dict(outcome.replies),
            "failures": failures,
        }


def asked(controller: rc.control.Controller, stream: Harness | None = None) -> Any:
    process = (stream or harness()).start(controllers=[controller])
    command(process, Called, type(controller).__name__.lower())
    process.run()
    return seat(process, type(controller).__name__.lower()).state


def test_handlers_that_fail_are_failed_replies_and_nothing_else():
    stream = harness()
    state = asked(Asking(), stream)
    assert state["replies"] == {}
    assert {operator for operator, _ in state["failures"]} == {"memory", "counts"}
    assert ("counts", "ZeroDivisionError: task 0") in [tuple(f) for f in state["failures"]]
    assert any("more than 1,000 bytes" in error for _, error in state["failures"])
    assert list(stream.outputs()) == [1, 2, 3, 4]


class Channels(OperatorHandler):
    """The calls, in their order."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_begin(self, task: TaskView) -> None:
        self.calls.append("begin")

    def on_next(self, task: TaskView, channel: ControlChannel) -> None:
        self.calls.append(f"next {channel.operator} {channel.task} {sorted(channel.replies)}")

    def on_complete(self, task: TaskView) -> dict[str, list[str]]:
        return {str(task.task): [*self.calls, "complete"]}

    def merge(self, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        return one | other


class Bytes(OperatorHandler):
    """What came on the channels of a task, and what the task says of all of them."""

    def __init__(self) -> None:
        self.came: dict[str, list[int]] = {}

    def on_next(self, task: TaskView, channel: ControlChannel) -> None:
        self.came[f"{channel.operator} {channel.task}"] = [channel.rows, channel.bytes]

    def on_complete(self, task: TaskView) -> dict[str, Any]:
        return {str(task.task): [self.came, task.rows_in, task.bytes_in]}

    def merge(self, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        return one | other


class AskingBytes(Asking):
    handler = Bytes()
    options: dict[str, Any] = {"operators": ["counts"]}  # noqa: RUF012 - of tests


def test_a_handler_sees_what_came_on_each_channel():
    state = asked(AskingBytes(), harness(settings=rc.Settings(tasks=2, bins=8)))
    replies = state["replies"]["counts"]
    assert set(replies) == {"0", "1"}
    for came, rows, size in replies.values():
        assert set(came) == {"memory 0"}
        assert [rows, size] == [sum(each) for each in zip(*came.values(), strict=True)]
    assert sum(rows for _, rows, _ in replies.values()) == 10


class AskingChannels(Asking):
    handler = Channels()
    options: dict[str, Any] = {"operators": ["counts"]}  # noqa: RUF012 - of tests


def test_an_operator_hears_from_each_task_upstream_once():
    replies = asked(AskingChannels())["replies"]
    assert set(replies) == {"counts"}
    assert set(replies["counts"]) == {"0", "1"}
    for calls in replies["counts"].values():
        assert calls == ["begin", "next memory 0 []", "complete"]


class View(OperatorHandler):
    """What there is to see."""

    heaviest = 2
    reads_state = True

    def on_complete(self, task: TaskView) -> Any:
        state = None if task.read_state is None else task.read_state()
        return {
            str(task.task): {
                "rows_in": task.rows_in,
                "heaviest": [[*key.key, key.rows] for key in task.heaviest],
                "bins": None if task.bin_rows is None else int(task.bin_rows.sum()),
                "bytes": bool(sum(task.bin_bytes)),
                "state": 0 if state is None else state.num_rows,
                "busy": sorted(task.ms),
            }
        }

    def merge(self, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        return one | other


class AskingView(Asking):
    handler = View()
    options: dict[str, Any] = {}  # noqa: RUF012 - of tests


SKEWED = [{"k": 0}] * 5 + [{"k": k} for k in range(1, 8)]


def test_a_handler_sees_the_load_of_its_task_its_heaviest_keys_and_its_state():
    rows = script("k bigint", [SKEWED])
    counts = rc.read().memory(rows).key_by("k").aggregate(n=rc.aggregates.count(), name="counts")
    stream = Harness(counts.write.memory("out"), configure=uncombined)
    stream.start().run()
    for _ in range(4):
        rows.push(SKEWED)
    process = stream.start(controllers=[AskingView()])
    command(process, Called, "askingview")
    process.run()
    state = seat(process, "askingview").state
    assert 1 < state["timestep"] <= 5  # with rows
    counted = state["replies"]["counts"].values()
    assert sum(one["rows_in"] for one in counted) == len(SKEWED)
    assert [one["bins"] or 0 for one in counted] == [one["rows_in"] for one in counted]
    assert sum(one["state"] for one in counted) == 8
    assert all(one["bytes"] for one in counted if one["state"])
    assert all({"deserialise", "lookup", "process"} <= set(one["busy"]) for one in counted)
    (hot,) = (one for one in counted if [0, 5] in one["heaviest"])
    assert hot["heaviest"][0] == [0, 5]
    assert all(len(one["heaviest"]) == min(2, one["state"]) for one in counted)
    (source,) = state["replies"]["memory"].values()
    assert (source["rows_in"], source["bins"], source["heaviest"]) == (len(SKEWED), None, [])


class Moving(rc.control.Controller):
    """Changes the parallelism with a blocking operation, once."""

    def on_init(self):
        return []

    def on_begin(self, control):
        control.state = [*control.state, "begun"]
        return rc.control.operation(
            Rows(), blocking=True, change=rc.changes.rescale("counts", 4), operators=["counts"]
        )

    def on_complete(self, control, outcome):
        tasks = control.configuration.operators["counts"].tasks
        control.state = [*control.state, [outcome.timestep, outcome.replies, tasks]]


def test_a_blocking_operation_travels_with_the_first_timestep_of_its_change():
    stream = harness(steps=6)
    process = stream.start(controllers=[Moving()])
    command(process, Called, "moving")
    process.run()
    begun, (timestep, replies, tasks) = seat(process, "moving").state
    (record,) = process.changes.coordination.records
    assert begun == "begun"
    assert replies == {"counts": 0}  # the handlers ran before the rows
    assert tasks == 4
    assert [taken.timestep for taken in record.taken] == [timestep]
    assert record.cause == "controller 'moving': operation moving-1.1"


def test_an_operation_that_is_called_on_an_idle_stream_has_a_timestep_of_its_own():
    stream = harness(steps=2)
    process = stream.start(controllers=[Moving()])
    process.run()
    command(process, Called, "moving")
    process.run()
    assert seat(process, "moving").state[1][1] == {"counts": 0}
    assert [t.num_rows for t in stream.outputs().values()] == [10, 10, 0]


class Rewriting(Moving):
    """Has the state of an operator written anew, which takes timesteps."""

    def on_begin(self, control):
        control.state = [*control.state, "begun"]
        change = rc.changes.rewrite("counts")
        slowly = rc.strategies.batched(1, gap=1)
        return rc.control.operation(Rows(), blocking=True, change=change, strategy=slowly)


def test_a_change_that_takes_timesteps_has_them_on_an_idle_stream_if_an_operation_waits_for_it():
    stream = harness(steps=2)
    process = stream.start(controllers=[Rewriting()])
    process.run()
    command(process, Called, "rewriting")
    process.run()
    (record,) = process.changes.coordination.records
    assert record.phase == "done"
    assert len(record.taken) > 1
    assert seat(process, "rewriting").state[1][0] == record.taken[-1].timestep
    assert seat(process, "rewriting").operation is None


class RewritingToo(rc.control.Controller):
    """Requests the same without an operation."""

    def on_begin(self, control):
        control.reconfigure(rc.changes.rewrite("counts"), strategy=rc.strategies.batched(1, gap=1))


def test_it_also_has_those_of_a_change_that_comes_before_its_own():
    stream = harness(steps=2)
    first = rc.control.install(Rewriting(), priority=1)
    process = stream.start(controllers=[first, RewritingToo()])
    process.run()
    command(process, Called, "rewritingtoo")
    process.run()
    assert len(process.changes.coordination.open) == 1  # it waits for rows
    command(process, Called, "rewriting")
    process.run()
    assert not process.changes.coordination.open
    assert seat(process, "rewriting").state[1:]
    assert seat(process, "rewriting").operation is None


def run_to_the_end(stream: Harness, faults: list[Fault | None]) -> None:
    process = stream.start(controllers=[Moving(), Rescaling()], faults=faults)
    command(process, Called, "moving")
    process.run()
    process.stop()


@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.AFTER])
@pytest.mark.parametrize("stop", range(4, 44))
def test_a_controller_goes_on_where_it_was_after_a_crash(stop: int, kind: FaultKind):
    stream = harness(steps=3)
    faults = [*[None] * stop, Fault(kind=kind)]
    with pytest.raises(Crash):
        run_to_the_end(stream, faults)
    process = stream.start(controllers=[Moving(), Rescaling()])
    if not seat(process, "moving").calls:
        command(process, Called, "moving")
    process.run()
    state = seat(process, "moving").state
    assert [state.count("begun"), len(state)] == [1, 2]
    assert seat(process, "rescaling").state is True
    causes = [record.cause for record in process.changes.coordination.records]
    assert sorted(causes) == sorted(set(causes))
    assert len(causes) == 2 or "request 1: refused" in str(seat(process, "rescaling").log)


def test_controllers_are_paused_resumed_and_removed():
    process = harness(steps=1).start(controllers=[Watching()])
    command(process, Paused, "watching", reason="lunch")
    process.run()
    assert seat(process, "watching").state["operations"] == 0
    command(process, Unpaused, "watching")
    command(process, Called, "watching")
    process.run()
    assert seat(process, "watching").state["operations"] == 1
    command(process, Removed, "watching")
    with pytest.raises(NotReadyError, match="there is no controller 'watching'"):
        seat(process, "watching")


def test_two_controllers_of_one_name_are_refused():
    process = harness().start(controllers=[Watching()])
    answer = process.controllers.install(rc.control.install(Watching()))
    process.driver.step()
    with pytest.raises(RefusedError, match="there is a controller 'watching' already"):
        answer.result(0)
    with pytest.raises(RefusedError, match="two controllers have the name 'watching'"):
        harness().start(controllers=[Watching(), Watching()])


class Broken(rc.control.Controller):
    def on_init(self):
        raise OSError("no figures")


def test_controllers_are_there_when_a_job_has_started_or_the_start_fails(tmp_path):
    rows = script("k bigint")
    flow = rc.read().memory(rows).key_by("k").aggregate(n=rc.aggregates.count()).write.memory("out")
    place = tmp_path / "state"
    with pytest.raises(RefusedError, match=r"(?s)'broken' is not installed.*no figures"):
        rc.Job("one", flow, state=place, controllers=[Broken()]).start(in_process=rc.InProcess())
    job = rc.Job("one", flow, state=place, controllers=[Watching()]).start(
        in_process=rc.InProcess()
    )
    assert list(job.controllers) == ["watching"]
    assert job.controllers["watching"].status.running
    job.stop()


class Numbers(OperatorHandler):
    """The numbers of the tasks that were asked; a merge with the third raises."""

    def on_complete(self, task: TaskView) -> list[int] | None:
        return [task.task] if task.operator == "numbers" else None

    def merge(self, one: list[int], other: list[int]) -> list[int]:
        if 3 in (*one, *other):
            raise ArithmeticError("three")
        return sorted([*one, *other])


class AskingNumbers(Asking):
    handler = Numbers()
    options: dict[str, Any] = {}  # noqa: RUF012 - of tests


def numbered(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(range(start, stop), pa.int64())})


def test_a_merge_that_raises_loses_one_reply_and_not_the_others():
    rows = rc.read().generator(
        numbered, schema="k bigint", rows=30, per_timestep=10, partitions=5, name="numbers"
    )
    counts = rows.key_by("k").aggregate(n=rc.aggregates.count(), name="counts", tasks=1)
    stream = Harness(counts.write.memory("out"), settings=rc.Settings(tasks=5))
    process = stream.start(controllers=[AskingNumbers()])
    command(process, Called, "askingnumbers")
    process.run()
    state = seat(process, "askingnumbers").state
    assert state["replies"] == {"numbers": [0, 1, 2, 4]}
    assert [tuple(failure) for failure in state["failures"]] == [
        ("numbers", "ArithmeticError: three")
    ]
