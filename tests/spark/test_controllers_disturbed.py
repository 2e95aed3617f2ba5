"""Controllers on Spark while something goes wrong, or somebody changes the stream: output and state do not notice."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.control import TaskView
from tests.spark.children import Child
from tests.spark.controlled import (
    Asking,
    Changing,
    Counting,
    Endless,
    Gigabytes,
    Load,
    Raising,
    Requesting,
    Watch,
    job_of,
)
from tests.spark.holds import Marks, me
from tests.spark.programs import (
    BRIEF,
    PATIENCE,
    PER_TIMESTEP,
    TIMESTEPS,
    journal_of,
    ledger,
    outputs,
    run,
    session,
    states,
    until,
)
from tests.support.asking import client_of

HERE = "tests.spark.controlled"


@pytest.mark.slow  # in process, they are tested in every run
def test_handlers_that_never_end_or_reply_with_gigabytes_are_failed_replies(
    spark, state, out, briefly_undisturbed
):
    controllers = [
        rc.control.install(Asking(Endless(), seconds=0.2), name="endless"),
        rc.control.install(Asking(Gigabytes()), name="gigabytes"),
    ]
    job = job_of(spark, out, state, controllers, flow={"rows": BRIEF})
    job.process_all_available(PATIENCE)
    for each in job.controllers.values():
        until(lambda each=each: each.state, f"{each.name} is over")
    endless, gigabytes = (each.state for each in job.controllers.values())
    job.stop(PATIENCE)
    assert (states(job), outputs(out)) == briefly_undisturbed
    assert endless["replies"] == gigabytes["replies"] == {}
    assert [text[:30] for text in endless["failures"]] == [
        f"{task}: it took longer than 0.2 s" for task in (0, 1)
    ]
    assert len(gigabytes["failures"]) == 2
    assert all("has more than 65,536 bytes" in text for text in gigabytes["failures"])


@pytest.mark.slow
def test_a_controller_that_raises_is_suspended_and_another_goes_on(spark, state, out, undisturbed):
    raising = rc.control.install(Raising(), failures=2)
    job = job_of(spark, out, state, [raising, Watch()])
    bad, good = job.controllers["raising"], job.controllers["watch"]
    until(lambda: bad.status.suspended, "it is suspended")
    before = good.state["operations"]
    until(lambda: good.state["operations"] > before, "the other one goes on")
    job.process_all_available(PATIENCE)
    status, kept = bad.status, bad.state
    job.stop(PATIENCE)
    assert (states(job), outputs(out)) == undisturbed
    assert kept == {"operations": 1}
    assert (status.failed, status.operations) == (2, 3)
    assert status.paused == "2 callbacks in a row have failed"
    assert "ArithmeticError: operation 2" in " ".join(status.log)


def opened(control: Any) -> bool:
    """Whether a change is under way."""
    return any(record.under_way for record in control.changes)


def refused(control: Any) -> bool:
    """Whether a change has been under way for some timesteps."""
    return any(record.under_way and len(record.taken) > 3 for record in control.changes)


@pytest.mark.slow
def test_of_requests_that_meet_the_one_with_priority_is_carried_out(spark, state, out, undisturbed):
    def wanting(name: str, tasks: int, when: Any, **more: Any) -> rc.control.Installation:
        change = rc.changes.rescale("balances", tasks)
        slowly = rc.strategies.fluid(1)
        return rc.control.install(Requesting(change, when, slowly), name=name, **more)

    controllers = [
        wanting("first", 3, lambda control: control.timestep >= 2),
        wanting("equal", 5, opened),
        wanting("strong", 4, refused, priority=1),
    ]
    job = job_of(spark, out, state, controllers, bins=16)
    strong = job.controllers["strong"]
    until(lambda: any("reconfiguration" in line for line in strong.status.log), "it is accepted")
    job.process_all_available(PATIENCE)
    until(lambda: len(job.history()) == 2, "its change is over")
    records, tasks = job.history(), job.configuration.operators["balances"].tasks
    log = " ".join(job.controllers["equal"].status.log)
    job.stop(PATIENCE)
    assert (states(job), outputs(out)) == undisturbed
    assert [(record.cause, record.phase) for record in records] == [
        ("controller 'first'", "superseded"),
        ("controller 'strong'", "done"),
    ]
    assert tasks == 4
    assert "request 1: refused" in log


OTHER = rc.changes.assign_logic("behind", f"{HERE}:with_other_branch")
"""A change of the dataflow that moves all updates of a branch elsewhere."""


@pytest.mark.slow
def test_a_blocking_change_of_logic_holds_from_its_timestep_on(spark, tmp_path: Path, undisturbed):
    place, twin = tmp_path / "a", tmp_path / "b"
    job = job_of(spark, place / "out", place / "state", [Changing(OTHER, at=8)], interval_ms=200)
    job.process_all_available(PATIENCE)
    found = job.controllers["changing"].state
    job.stop(PATIENCE)
    border = found["timestep"]
    assert 8 < border < TIMESTEPS
    assert found["rows"] == 0  # its handlers ran before the rows
    frozen = job_of(spark, twin / "out", twin / "state", [], interval_ms=200)
    frozen.reconfigure(OTHER, at=border)
    frozen.process_all_available(PATIENCE)
    frozen.stop(PATIENCE)
    assert [record.first_timestep for record in frozen.history()] == [border]
    assert (states(job), outputs(place / "out")) == (states(frozen), outputs(twin / "out"))
    assert outputs(place / "out")["balances"] == undisturbed[1]["balances"]
    branches, before = outputs(place / "out")["branches"], undisturbed[1]["branches"]
    same = [branches[name] == before[name] for name in sorted(before)]
    assert same == [True] * (border - 1) + [False] * (TIMESTEPS - border + 1)


@pytest.mark.slow
def test_a_switch_of_the_program_leaves_controllers_where_they_are(
    spark, state, out, tmp_path, undisturbed
):
    job = job_of(spark, out, state, [Watch(), Counting(3)], interval_ms=200)
    watch = job.controllers["watch"]
    until(lambda: watch.state["operations"], "it has begun")
    seen = job.stream("balances").key_by("account").aggregate(n=agg.count(), name="seen")
    job.reconfigure(rc.changes.add(seen.write.parquet(f"{tmp_path}/seen"))).wait(PATIENCE)
    until(lambda: "seen" in watch.state["rows"], "a message has passed the new operator")
    job.process_all_available(PATIENCE)
    counted, timesteps = job.controllers["counting"].state, watch.state["timesteps"]
    assert [record.phase for record in job.history()] == ["done"]
    job.stop(PATIENCE)
    assert (states(job), outputs(out)) == undisturbed
    assert counted == {"operations": 3, "rows": 3 * PER_TIMESTEP, "tasks": 6}
    assert timesteps == sorted(set(timesteps))


@pytest.mark.slow
def test_controllers_are_commanded_over_http_while_the_stream_runs(spark, state, out, undisturbed):
    job = job_of(spark, out, state, [], interval_ms=500)
    with job.serve(port=0, allow=[HERE]) as server, client_of(server, PATIENCE) as client:

        def post(path: str, /, **body: Any) -> Any:
            answer = client.post(f"/controllers{path}", json=body)
            assert answer.is_success, answer.text
            return answer.json()

        def watch() -> Any:
            return client.get("/controllers/watch").json()

        def timesteps(more: int) -> None:
            now = job.status.timestep
            until(lambda: job.status.timestep >= now + more, "timesteps go on")

        post("", path=f"{HERE}:Watch", seconds=5)
        until(lambda: watch()["state"]["operations"], "it has begun")
        assert post("/watch/pause", reason="a look")["paused"] == "a look"
        until(lambda: watch()["operation"] is None, "its operation is over")
        before = watch()["operations"]
        timesteps(3)
        assert watch()["operations"] == before
        assert post("/watch/resume")["paused"] is None
        until(lambda: watch()["state"]["operations"] > before, "it goes on")
        post("/watch/remove")
        assert job.status.timestep < TIMESTEPS
        timesteps(1)
        assert client.get("/controllers/watch").status_code == 404
        assert client.get("/controllers").json() == {"controllers": []}
        job.process_all_available(PATIENCE)
    job.stop(PATIENCE)
    assert (states(job), outputs(out)) == undisturbed


def counted_and_rescaled() -> list[Any]:
    """Controllers whose last state depends on the stream alone."""
    change = rc.changes.rescale("balances", 4)
    return [Counting(5), Requesting(change, lambda control: control.timestep >= 3)]


def drive(place: str) -> dict[str, Any]:
    """Process everything with two controllers. The process is killed somewhere in between."""
    spark = session(place)
    job = job_of(spark, f"{place}/out", f"{place}/state", counted_and_rescaled(), interval_ms=150)
    return finished(job, f"{place}/state")


def finished(job: rc.RunningJob, state: Path | str) -> dict[str, Any]:
    """What controllers of a job have in the end."""
    job.process_all_available(PATIENCE)
    job.stop(PATIENCE)
    board = journal_of(state).board
    return {
        "counting": board.seats["counting"].state,
        "requested": board.seats["requesting"].requested,
        "causes": [record.cause for record in job.history()],
        "serials": {name: seat.serial for name, seat in board.seats.items()},
        "tasks": job.configuration.operators["balances"].tasks,
    }


def wait_until_killable(driver: Child, state: Path, epoch: int, commits: int) -> None:
    """Wait until a driver has opened the journal and committed some timesteps."""

    def opened() -> bool:
        assert driver.running, driver.errors()
        return state.exists() and journal_of(state).epoch > epoch

    until(opened, "a driver opens the journal")
    first = journal_of(state).last_committed or 0
    until(lambda: (journal_of(state).last_committed or 0) >= first + commits, "timesteps commit")


@pytest.mark.slow
def test_what_controllers_know_after_kills_is_what_they_know_without(
    spark, child, tmp_path: Path, undisturbed
):
    place, twin = tmp_path / "b", tmp_path / "a"
    waits = [2, 0, 3, 0, 1]
    interrupted = 0
    for epoch, commits in enumerate(waits):
        driver = child(drive, place=str(place))
        wait_until_killable(driver, place / "state", epoch, commits)
        assert driver.kill() == -signal.SIGKILL
        after = journal_of(place / "state")
        assert not after.closed, "the driver had ended of its own will"
        interrupted += any(seat.operation or seat.pending for seat in after.board.seats.values())
    assert interrupted, "no controller was at work when its driver was killed"
    assert after.epoch == len(waits)
    last = child(drive, place=str(place)).result(PATIENCE)
    job = job_of(spark, twin / "out", twin / "state", counted_and_rescaled(), interval_ms=150)
    assert last == finished(job, twin / "state")
    assert last["counting"] == {"operations": 5, "rows": 5 * PER_TIMESTEP, "tasks": 10}
    assert outputs(place / "out") == undisturbed[1]
    assert states(run(spark, ledger(place / "out"), place / "state")) == undisturbed[0]


class Held(Load):
    """Holds its task until a test lets it go."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place

    def on_complete(self, task: TaskView) -> list[int]:
        marks = Marks(self.place)
        marks.put("held", **me())
        until(lambda: marks.said("go"), "a test lets this task go", patience=50)
        return super().on_complete(task)


class HoldOnce(rc.control.Controller):
    """Sends an operation whose handlers hold, once."""

    trigger = rc.control.every(timesteps=1)

    def __init__(self, place: str) -> None:
        self.place = place

    def on_begin(self, control):
        if control.state is not None or control.timestep < 3:
            return None
        control.state = {}
        return rc.control.operation(Held(self.place), operators=["followed"], seconds=60)

    def on_complete(self, control, outcome):
        rows, tasks, _ = outcome.replies["followed"]
        control.state = {"rows": rows, "tasks": tasks, "failed": outcome.failed}


def on_two_executors(place: str) -> Any:
    """Process everything on two executors; what the controller knows then."""
    spark = session(place, "local-cluster[2,1,1024]", spark__executor__memory="512m")
    holding = HoldOnce(f"{place}/marks")
    job = job_of(spark, f"{place}/out", f"{place}/state", [holding])
    job.process_all_available(PATIENCE)
    known = job.controllers["holdonce"].state
    job.stop(PATIENCE)
    return known


def executor_of(pid: str) -> psutil.Process:
    """The executor that a Python worker belongs to."""
    parents = psutil.Process(int(pid)).parents()
    return next(p for p in parents if "CoarseGrainedExecutorBackend" in " ".join(p.cmdline()))


@pytest.mark.slow
def test_an_executor_that_dies_amid_an_operation_is_made_up_for(
    spark, child, tmp_path: Path, undisturbed
):
    driver = child(on_two_executors, place=str(tmp_path))
    marks = Marks(tmp_path / "marks")
    until(lambda: len(marks.of("held")) == 2 or not driver.running, "both tasks hold")
    assert driver.running, driver.errors()
    victim, survivor = (executor_of(mark["pid"]) for mark in marks.of("held"))
    assert victim != survivor
    victim.kill()
    until(lambda: not victim.is_running(), "it is dead")
    marks.say("go")
    known = driver.result(PATIENCE)
    assert len(marks.of("held")) > 2, "no handler ran again"
    assert known == {"rows": PER_TIMESTEP, "tasks": 2, "failed": 0}
    assert outputs(tmp_path / "out") == undisturbed[1]
    assert states(run(spark, ledger(tmp_path / "out"), tmp_path / "state")) == undisturbed[0]
