"""Which units may run: what feeds them in the timestep, and their own timestep before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.engine.loop.core.schedule import Needs, Schedule, Unit

CHAIN = {
    "front": Needs(stages=(), stateful=False),
    "counts": Needs(stages=("front",), stateful=True),
    "totals": Needs(stages=("counts",), stateful=True),
}


def ran(schedule: Schedule, *units: Unit) -> Schedule:
    for unit in units:
        assert unit in schedule.ready()
        schedule = schedule.start(unit).finish(unit)
    return schedule


def test_nothing_is_ready_before_a_timestep_is_open():
    assert Schedule(CHAIN).ready() == ()
    assert Schedule(CHAIN).committable() is None


def test_a_unit_waits_for_what_feeds_it():
    schedule = Schedule(CHAIN).open(1)
    assert schedule.ready() == (("front", 1),)
    schedule = schedule.start(("front", 1))
    assert schedule.ready() == ()
    assert schedule.finish(("front", 1)).ready() == (("counts", 1),)


def test_timesteps_overlap_as_far_as_state_allows():
    schedule = ran(Schedule(CHAIN).open(1).open(2), ("front", 1), ("front", 2))
    assert schedule.ready() == (("counts", 1),)
    schedule = ran(schedule, ("counts", 1))
    assert schedule.ready() == (("totals", 1), ("counts", 2))


def test_an_operator_does_not_overtake_itself():
    schedule = ran(Schedule(CHAIN).open(1).open(2), ("front", 2))
    assert schedule.ready() == (("front", 1),)


def test_a_timestep_is_committed_when_all_its_units_are_done_and_in_order():
    schedule = ran(Schedule(CHAIN).open(1).open(2), ("front", 1), ("counts", 1), ("front", 2))
    schedule = ran(schedule, ("counts", 2))
    assert schedule.committable() is None
    schedule = ran(schedule, ("totals", 1), ("totals", 2))
    assert schedule.committable() == 1
    schedule = schedule.close(1)
    assert schedule.committable() == 2
    schedule = schedule.close(2)
    assert schedule.timesteps == ()
    assert schedule.done == frozenset()


def test_a_dataflow_without_stages_is_committable_at_once():
    assert Schedule({}).open(1).committable() == 1


def test_timesteps_are_opened_and_closed_in_order():
    schedule = Schedule(CHAIN).open(4).open(5)
    with pytest.raises(ValueError, match="5 does not follow 5"):
        schedule.open(5)
    with pytest.raises(ValueError, match="5 is not the oldest"):
        schedule.close(5)
    with pytest.raises(ValueError, match="1 is not the oldest"):
        Schedule(CHAIN).close(1)


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Needs]:
    """Stages that are fed by any of those before them."""
    needs: dict[str, Needs] = {}
    for number in range(draw(st.integers(1, 5))):
        fed = draw(st.sets(st.sampled_from(sorted(needs)))) if needs else set()
        needs[f"s{number}"] = Needs(stages=tuple(sorted(fed)), stateful=draw(st.booleans()))
    return needs


@given(graphs(), st.data())
def test_any_order_of_finishing_ends_and_keeps_the_rules(needs, data):
    schedule, opened, committed = Schedule(needs), 0, []
    finished: list[Unit] = []
    while len(committed) < 4:
        if opened < 4 and len(schedule.timesteps) < 3 and data.draw(st.booleans()):
            opened += 1
            schedule = schedule.open(opened)
        for unit in schedule.ready():
            schedule = schedule.start(unit)
        if schedule.running:
            unit = data.draw(st.sampled_from(sorted(schedule.running)))
            stage, timestep = unit
            assert all((fed, timestep) in finished for fed in needs[stage].stages)
            earlier = [(stage, t) for t in range(1, timestep)]
            assert not needs[stage].stateful or all(one in finished for one in earlier)
            finished.append(unit)
            schedule = schedule.finish(unit)
        while (number := schedule.committable()) is not None:
            assert all((stage, number) in finished for stage in needs)
            committed.append(number)
            schedule = schedule.close(number)
        if not schedule.running and not schedule.ready() and opened < 4:
            opened += 1
            schedule = schedule.open(opened)
    assert committed == [1, 2, 3, 4]
    assert len(finished) == len(set(finished)) == 4 * len(needs)
