"""Reconfigurations of a whole driver and of a job, crashes included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

import rechannel as rc
from rechannel import aggregates as agg
from rechannel import changes
from rechannel.engine.journal.entries import ConfigurationChanged, Reconfiguring
from rechannel.errors import (
    NotReadyError,
    RefusedError,
)
from rechannel.job import InProcess, Job
from rechannel.reconfigure import strategies
from rechannel.reconfigure.coordination import KEPT
from rechannel.reconfigure.record import Phase
from rechannel.reconfigure.requests import Request
from rechannel.reconfigure.steps import Sizes
from rechannel.settings import Settings
from rechannel.state.keys import RECONFIGURATIONS
from rechannel.state.stores.faulty import Crash, Fault, FaultKind
from rechannel.testing import Harness, ManualClock, MemoryStore, script
from tests.support.changing import program
from tests.support.reconfiguring import HALF, Hands

# In a driver ---------------------------------------------------------------------------------------

ROWS = [[{"k": k, "v": 1} for k in range(20)] for _ in range(4)]


def counted(rows: list[Any] = ROWS, **options: Any) -> Harness:
    """A sum by key, and another one, over four timesteps."""
    stream = rc.read().memory(script("k long, v long", rows), name="in")
    sums = stream.key_by("k").aggregate(total=agg.sum("v"), name="counts")
    return Harness(sums.write.memory("out", name="out"), **options)


def totals(harness: Harness) -> dict[int, int]:
    return {row["k"]: row["total"] for row in harness.state("counts").to_pylist()}


EIGHT = Settings(bins=8, keep_versions=9, snapshot_every=2)


def until(harness: Harness, reached: Callable[[], bool]) -> None:
    while not reached():
        assert harness.process.step()


def test_a_running_stream_is_changed_step_by_step_and_computes_the_same():
    harness = counted(settings=EIGHT)
    process = harness.start()
    process.reconfigure(HALF, strategies.fluid())
    process.reconfigure(changes.set_in_flight(2), at=3)
    process.run()
    assert totals(harness) == dict.fromkeys(range(20), 4)
    state = harness.journal_state()
    assert {str(record.phase) for record in state.coordination.records} == {"done"}
    assert process.position.configuration.operators["counts"].routing.owners == (1,) * 8
    assert process.position.configuration.in_flight == 2
    versions = [configuration.version for _, configuration in state.configurations]
    assert versions == sorted(set(versions))
    assert list(harness.outputs()) == [1, 2, 3, 4]


def test_an_abort_leads_a_running_stream_back():
    harness = counted(settings=EIGHT)
    process = harness.start()
    before = process.position.configuration.operators["counts"].routing
    process.reconfigure(HALF, strategies.fluid())
    until(harness, lambda: (harness.journal_state().last_committed or 0) >= 2)
    assert process.position.configuration.operators["counts"].routing != before
    process.abort("r1")
    process.run()
    assert process.position.configuration.operators["counts"].routing == before
    assert str(harness.journal_state().coordination.find("r1").phase) == "undone"
    assert totals(harness) == dict.fromkeys(range(20), 4)


def test_a_driver_answers_while_a_timestep_is_under_way():
    harness = counted(settings=EIGHT)
    process = harness.start()
    process.driver.step()
    assert len(process.executor)
    request = Request(change=HALF, strategy=strategies.all_at_once())
    answer = process.changes.request(request)
    assert not answer.done()
    process.driver.step()
    assert answer.result(0) == "r1"
    assert harness.journal_state().last_committed is None


WRITES = 40


def gently(harness: Harness, **options: Any) -> None:
    """A driver that is asked for a change, if nobody was before, and runs to the end."""
    process = harness.start(**options)
    if not harness.journal_state().coordination.records:
        process.reconfigure(HALF, strategies.fluid(2))
    process.run()


@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.AFTER], ids=str)
@pytest.mark.parametrize("write", range(WRITES))
def test_a_driver_may_die_at_any_write_of_a_reconfiguration(write: int, kind: FaultKind):
    harness = counted(settings=EIGHT, clock=ManualClock())
    with pytest.raises(Crash):
        gently(harness, faults=[*[None] * write, Fault(kind=kind)])
    gently(harness)
    (record,) = harness.journal_state().coordination.records
    assert (record.phase, [taken.bins for taken in record.taken]) == (Phase.DONE, [2, 2])
    assert harness.process.position.configuration.operators["counts"].routing.owners == (1,) * 8
    assert totals(harness) == dict.fromkeys(range(20), 4)
    assert list(harness.outputs()) == [1, 2, 3, 4]
    assert list(harness.store.list(RECONFIGURATIONS)) == [f"{RECONFIGURATIONS}r1.json"]


def test_these_are_all_writes_until_it_is_over():
    harness = counted(settings=EIGHT, clock=ManualClock())
    process = harness.start()
    process.reconfigure(HALF, strategies.fluid(2))
    until(harness, lambda: not harness.journal_state().coordination.open)
    assert process.store.writes <= WRITES


def test_what_is_left_when_input_ends_is_changed_without_timesteps():
    harness = counted(ROWS[:1], settings=EIGHT)
    process = harness.start()
    bodies = []
    append = process.journal.append
    process.journal.append = lambda body: (bodies.append(body), append(body))[1]  # type: ignore[method-assign]
    process.reconfigure(HALF, strategies.fluid())
    process.run()
    assert str(harness.journal_state().coordination.find("r1").phase) == "done"
    assert harness.journal_state().last_committed == 1
    changed = [body for body in bodies if isinstance(body, ConfigurationChanged)]
    assert {body.from_timestep for body in changed} == {2}
    assert sum(len(body.steps) for body in changed) in {3, 4}
    assert not [b for b in bodies if isinstance(b, Reconfiguring) and b.event.kind == "stepped"]


def test_a_driver_that_dies_behind_its_last_commit_leaves_nothing_open():
    """There is no more input: no commit will come that says that it is over."""
    harness = counted(ROWS[:1], settings=EIGHT)
    process = harness.start()
    process.reconfigure(HALF, at=1)
    append = process.journal.append

    def dies(body: Any) -> Any:
        if isinstance(body, Reconfiguring) and body.event.kind == "finished":
            raise Crash
        return append(body)

    process.journal.append = dies  # type: ignore[method-assign]
    with pytest.raises(Crash):
        process.run()
    assert str(harness.journal_state().coordination.find("r1").phase) == "moving"
    harness.start().run()
    assert str(harness.journal_state().coordination.find("r1").phase) == "done"


# In a job ------------------------------------------------------------------------------------------


def running(rows: list[Any] = ROWS) -> Any:
    stream = rc.read().memory(script("k long, v long", rows), name="in")
    sums = stream.key_by("k").aggregate(total=agg.sum("v"), name="counts")
    settings = replace(EIGHT, tasks=2)
    return Job("counted", sums.write.memory("out"), state=MemoryStore(), settings=settings).start(
        in_process=InProcess()
    )


def test_a_job_is_changed_from_another_thread():
    job = running()
    change = job.reconfigure(HALF, strategies.fluid()).wait(60)
    assert (change.id, change.phase) == ("r1", "done")
    with pytest.raises(RefusedError, match="tasks 0 to 1"):
        job.reconfigure(changes.move("counts", 0, 7))
    planned = job.plan(changes.move("counts", [0, 1], 0))
    assert planned.bins == 2
    job.reconfigure(planned).wait(60)
    assert [one.id for one in job.history()] == ["r1", "r2"]
    job.stop(60)
    with pytest.raises(RefusedError, match="does not run"):
        job.reconfigure(HALF)


def test_whoever_waits_for_a_change_that_the_job_did_not_make_hears_that_it_stopped():
    job = running()
    change = job.reconfigure(HALF, at=1_000)
    with pytest.raises(NotReadyError, match="after 0 s"):
        change.wait(0)
    job.stop(60)
    with pytest.raises(NotReadyError, match=r"r1 is (waiting|ready) \(the job has stopped\)"):
        change.wait(60)


def test_a_change_for_later_costs_the_borders_before_it_no_measurements(monkeypatch):
    hands = Hands()
    hands.asked(at_timestep=9)
    looked: list[str] = []
    monkeypatch.setattr(
        hands.changes._measured, "sizes", lambda _: looked.append("sizes") or Sizes()
    )
    hands.changes.decide(hands.here)
    assert looked == []
    hands.changes.decide(structs.replace(hands.here, timestep=9))
    assert looked == ["sizes"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"strategy": rc.strategies.fluid},
            r"strategy is rc\.strategies\.fluid itself: call it, as rc\.strategies\.fluid\(\)",
        ),
        ({"strategy": "fluid"}, r"such as rc\.strategies\.fluid\(bins=2\), got 'fluid'"),
        ({"strategy": 0}, "expected a strategy"),
        ({"cause": None}, "cause must be a string"),
        ({"cause": 5}, "cause must be a string"),
        ({"at": 10**100}, "at is out of range: the number of a timestep is at most"),
        ({"change": rc.changes.rescale}, "change is rc.changes.rescale itself: call it"),
        ({"change": type(HALF)}, "change is rc.changes.move itself: call it"),
        ({"change": None}, "expected a change"),
        ({"change": program()}, "switches the program cannot be replayed"),
    ],
)
def test_a_slip_of_who_asks_is_refused_and_the_job_runs_on(given, told):
    job = running()
    with pytest.raises(RefusedError, match=told):
        job.reconfigure(**{"change": HALF, **given})
    if given.keys() & {"strategy", "change"}:
        with pytest.raises(RefusedError, match=told):
            job.plan(**{"change": HALF, **given})
    job.process_all_available()
    job.reconfigure(HALF).wait(60)
    with pytest.raises(RefusedError, match="reason must be a string"):
        job.abort("r1", None)
    job.stop()


def test_a_handle_tells_of_a_change_that_the_journal_has_forgotten():
    job = running()
    job.process_all_available()
    refused = job.reconfigure(changes.set_interval(3), at=10_000)
    refused.abort()
    done = job.reconfigure(HALF).wait(60)
    for number in range(KEPT + 1):
        job.reconfigure(changes.set_interval(number % 2)).wait(60)
    with pytest.raises(NotReadyError):
        _ = done.record
    assert done.wait(60).phase == "done"
    assert done.summary().bins > 0
    assert repr(done).endswith("done>")
    with pytest.raises(RefusedError, match=r"r1 \(set_interval.* is aborted: asked for in Python"):
        refused.wait(60)
    assert [one.id for one in job.history(2)] == [f"r{KEPT + 2}", f"r{KEPT + 3}"]
    job.stop()
