"""The coordinator's state as a value: what it keeps, and what begins soon."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rechannel import changes
from rechannel.model.configuration import Resources
from rechannel.reconfigure import strategies
from rechannel.reconfigure.coordination import KEPT, KEPT_BYTES, Coordination, Now
from rechannel.reconfigure.coordinator import NEAR, due_soon, settled, state_at_begin
from rechannel.reconfigure.events import Finished, Planned, Prepared, Requested, Stepped
from rechannel.reconfigure.plan import plan
from rechannel.reconfigure.record import Phase
from rechannel.reconfigure.requests import Request, accept
from tests.support.changing import (
    Paper,
    configuration,
    keyed,
    two,
)


def asked(number: int) -> Requested:
    now = Now(timestep=1, time_ms=0, configuration=configuration(counts=keyed()))
    request = Request(change=changes.executors(1), strategy=strategies.all_at_once())
    event = accept(Coordination(serial=number - 1), request, now)
    assert isinstance(event, Requested)
    return event


def test_requests_come_in_the_order_of_their_numbers():
    with pytest.raises(ValueError, match="the next reconfiguration is r1, not r2"):
        Coordination().after(asked(2))


def test_events_belong_to_somebody():
    with pytest.raises(ValueError, match="prepared of r1, which does not exist"):
        Coordination().after(Prepared(id="r1", time_ms=0))


def test_of_those_that_are_over_the_latest_stay():
    state = Coordination()
    for number in range(1, KEPT + 4):
        state = state.after(asked(number))
    for number in range(2, KEPT + 4):
        state = state.after(Finished(id=f"r{number}", time_ms=0, outcome="aborted"))
    assert [record.id for record in state.records[:2]] == ["r1", "r4"]
    assert (len(state.records), len(state.open), state.serial) == (KEPT + 1, 1, KEPT + 3)


def test_what_ends_last_stays_however_long_ago_it_was_asked_for():
    state = Coordination()
    for number in range(1, KEPT + 4):
        state = state.after(asked(number))
    for number in range(2, KEPT + 4):
        state = state.after(Finished(id=f"r{number}", time_ms=number, outcome="aborted"))
    state = state.after(Finished(id="r1", time_ms=0, outcome="aborted"))  # the clock went back
    assert state.find("r1").phase is Phase.ABORTED
    assert len(state.records) == KEPT


def test_those_that_are_over_have_a_bound_in_bytes():
    state = Coordination()
    for number in (1, 2, 3, 4):
        state = state.after(asked(number))
    long = "x" * (KEPT_BYTES // 2)
    for number in (3, 1, 2):
        event = Finished(id=f"r{number}", time_ms=number, outcome="aborted", reason=long)
        state = state.after(event)
        assert state.find(f"r{number}").reason == long
    assert [record.id for record in state.records] == ["r2", "r4"]
    assert state.find("r4").open


def test_a_step_of_a_record_without_steps_cannot_happen():
    state = Coordination().after(asked(1))
    state = state.after(Planned(id="r1", time_ms=0, steps=(), base={}))
    with pytest.raises(ValueError, match="no step left"):
        state.after(Stepped(id="r1", time_ms=0, timestep=1))
    assert [event.outcome for event in settled(state, 0, 5)] == ["done"]


def soon_ids(paper: Paper) -> list[str]:
    return [record.id for record in due_soon(paper.state, paper.now)]


def test_what_begins_within_a_few_timesteps_is_soon():
    paper = Paper()
    later = paper.ask(changes.move("counts", 0, 1), at=NEAR + 3)
    assert (paper.step(2), soon_ids(paper)) == ([[], []], [])  # it is not prepared
    paper.prepare(later)
    assert soon_ids(paper) == [later]
    paper.timestep -= 1
    assert soon_ids(paper) == []


def test_what_is_for_a_time_is_soon_by_the_pace_of_timesteps():
    paper = Paper(configuration=replace(two(), interval_ms=1000))
    later = paper.ask(changes.move("counts", 0, 1), at_ms=20_000)
    paper.prepare(later)
    paper.time_ms = 20_000 - NEAR * 1000 - 1
    assert soon_ids(paper) == []
    paper.time_ms += 1
    assert soon_ids(paper) == [later]


def test_what_waits_for_others_is_soon_when_they_have_few_steps_left_and_begins_where_they_lead():
    paper = Paper(configuration=configuration(counts=keyed(bins=32)))
    first = paper.ask(changes.rescale("counts", 4), strategies.fluid())
    second = paper.ask(changes.rescale("counts", 8))
    assert soon_ids(paper) == []
    while len(paper.state.find(first).left) != NEAR:
        paper.step()
        assert soon_ids(paper) in ([], [second])
    assert soon_ids(paper) == [second]
    begins = state_at_begin(paper.state, paper.state.find(second), paper.now).configuration
    routing = begins.operators["counts"].routing
    assert routing is not None
    assert (paper.owners().count(3), routing.owners.count(3)) == (0, 8)


def test_what_begins_with_the_next_timestep_is_as_warm_as_it_gets():
    paper = Paper()
    paper.ask(changes.move("counts", 0, 1))
    assert soon_ids(paper) == []


def test_resources_of_the_job_are_those_of_every_operator():
    paper = Paper()
    paper.ask([changes.set_interval(5), changes.assign_resources(cpus=2)])
    assert paper.state.find("r1").touches == {"*job", "in", "counts", "sums"}
    paper.ask(changes.assign_resources("counts"))
    paper.step(3)
    assert [paper.phase("r1"), paper.phase("r2")] == ["done", "done"]
    found = {name: o.resources for name, o in paper.configuration.operators.items()}
    assert found == {"in": Resources(cpus=2), "counts": None, "sums": Resources(cpus=2)}
    said = plan(paper.state, changes.assign_resources(), strategies.all_at_once(), paper.now, 1.0)
    assert [affected.operator for affected in said.affected] == ["in", "sums"]
