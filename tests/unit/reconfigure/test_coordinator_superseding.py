"""The coordinator: changes of the program, and changes that are superseded or aborted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rechannel import changes
from rechannel.errors import NotReadyError, RefusedError
from rechannel.model.configuration import Combine
from rechannel.reconfigure import strategies
from rechannel.reconfigure.coordinator import decide
from rechannel.reconfigure.events import Finished
from rechannel.reconfigure.record import Phase
from rechannel.reconfigure.stream_facts import StreamFacts
from tests.support.changing import (
    ALL_TO_1,
    Paper,
    moved,
    program,
)

# Changes of the program ----------------------------------------------------------------------------


def test_a_change_of_the_program_holds_until_nothing_is_under_way():
    paper = Paper(drained=False)
    paper.ask(program(2))
    decision = paper.decide()
    assert (decision.hold, decision.steps) == (True, ())
    assert decision.configuration == paper.configuration
    assert paper.begin() == []
    assert paper.phase("r1") == "ready"
    paper.drained = True
    assert paper.begin() == ["r1"]
    assert paper.configuration.dataflow == 2


def test_whoever_goes_side_by_side_with_a_program_is_held_as_well():
    paper = Paper(drained=False)
    paper.ask(changes.set_interval(5))
    paper.ask(program(2))
    assert paper.decide().hold
    assert paper.begin() == []
    assert paper.configuration.interval_ms == 0
    paper.drained = True
    assert paper.begin() == ["r1", "r2"]


def test_a_change_of_the_program_excludes_all_but_the_jobs_own_numbers():
    paper = Paper()
    paper.ask(changes.move("counts", [0, 1], 1), strategies.fluid())
    paper.ask(program(2))
    paper.ask(changes.move("sums", 0, 1))
    paper.ask(changes.set_interval(5))
    assert paper.step(4) == [["r1", "r4"], ["r1"], ["r2"], ["r3"]]


def test_of_two_changes_of_the_program_the_earlier_one_is_finished_first():
    paper = Paper()
    paper.ask(program(2))
    paper.ask(program(3))
    assert paper.step(2) == [["r1"], ["r2"]]
    assert paper.configuration.dataflow == 3


def test_what_this_driver_cannot_begin_fails_at_its_border():
    paper = Paper()
    paper.ask(program(2))
    paper.ask(changes.set_interval(7))
    decision = decide(paper.state, paper.now, lambda r: "no functions" if r.id == "r1" else None)
    assert [(event.id, event.reason) for event in decision.events[:1]] == [("r1", "no functions")]
    assert [step.id for step in decision.steps] == ["r2"]
    assert (decision.configuration.dataflow, decision.configuration.interval_ms) == (1, 7)


def test_a_program_that_began_is_not_led_back_and_not_superseded():
    paper = Paper()
    change = [program(2), ALL_TO_1]
    paper.ask(change, strategies.fluid())
    paper.step()
    with pytest.raises(RefusedError, match="r1 has switched the program"):
        paper.abort("r1")
    with pytest.raises(RefusedError, match="r1 has switched the program"):
        paper.ask(changes.rescale("counts", 4), supersede=True)
    assert paper.phases() == {"r1": "moving"}


def test_a_program_that_has_not_begun_can_be_superseded():
    paper = Paper()
    paper.ask(program(2))
    paper.ask(program(3), supersede=True)
    paper.step()
    assert paper.phases() == {"r1": "superseded", "r2": "done"}


# Superseding ---------------------------------------------------------------------------------------


def test_a_change_that_supersedes_goes_on_from_what_was_done():
    paper = Paper()
    paper.ask(ALL_TO_1, strategies.fluid())
    paper.ask(changes.rescale("counts", 3), ready=False)
    paper.ask(changes.move("sums", 0, 1), strategies.fluid())
    paper.step(2)
    paper.ask(changes.move("counts", 7, 0), supersede=True)
    assert paper.phases() == {
        "r1": "superseded", "r2": "superseded", "r3": "done", "r4": "ready",
    }  # fmt: skip
    assert paper.state.find("r1").reason == "superseded by r4"
    paper.step()
    assert paper.owners() == [1, 1, 0, 0, 1, 1, 1, 0]


def test_it_is_judged_without_what_it_supersedes():
    paper = Paper()
    paper.ask(changes.rescale("counts", 4), ready=False)
    with pytest.raises(RefusedError, match="tasks 0 to 1"):
        paper.ask(changes.move("counts", 0, 3), supersede=True)
    assert paper.phases() == {"r1": "waiting"}
    paper.ask(changes.move("counts", 0, 3))


def counted(paper: Paper) -> list[int]:
    """How many bins every task owns."""
    return [paper.owners().count(t) for t in range(paper.configuration.operators["counts"].tasks)]


@pytest.mark.parametrize(("tasks", "half"), [(8, [2, 4, 1, 1, 0, 0, 0, 0]), (1, [6, 2])])
@pytest.mark.parametrize("after", [1, 2, 8])
def test_a_half_done_rescale_is_superseded_by_any_number_of_tasks(tasks, half, after):
    """The one that it went to, the one that it came from, another one: all lead to an even share."""
    paper = Paper()
    paper.ask(changes.rescale("counts", tasks), strategies.fluid())
    paper.step(2)
    assert counted(paper) == half
    paper.ask(changes.rescale("counts", after), supersede=True)
    paper.step()
    assert counted(paper) == [8 // after] * after
    assert paper.phases() == {"r1": "superseded", "r2": "done"}


def test_a_rescale_that_failed_half_way_is_asked_for_again():
    paper = Paper()
    paper.ask(changes.rescale("counts", 4), strategies.fluid())
    paper.step()
    paper.fold([Finished(id="r1", time_ms=0, outcome="failed")])
    paper.ask(changes.rescale("counts", 4))
    paper.step()
    assert counted(paper) == [2, 2, 2, 2]
    paper.ask(changes.rescale("counts", 4))
    paper.step()
    assert paper.state.find("r3").reason == "nothing had to change"


def test_where_there_is_nothing_to_supersede_it_is_a_change_like_any_other():
    paper = Paper()
    paper.ask(ALL_TO_1, supersede=True)
    assert paper.step() == [["r1"]]


# Aborting ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ready", [False, True])
def test_one_that_has_not_begun_just_ends(ready):
    paper = Paper()
    paper.ask(ALL_TO_1, ready=ready)
    paper.abort("r1")
    record = paper.state.find("r1")
    assert (record.phase, record.reason) == (Phase.ABORTED, "aborted")
    assert paper.step(2) == [[], []]
    assert moved(paper) == 0


def test_one_that_is_planned_but_made_no_step_just_ends():
    """Its driver died between the plan and the timestep."""
    paper = Paper()
    paper.ask(ALL_TO_1)
    paper.fold(paper.decide().events)
    assert paper.phase("r1") == "moving"
    paper.abort("r1")
    assert paper.phase("r1") == "aborted"
    assert paper.step() == [[]]


def test_one_that_is_under_way_is_led_back_by_the_same_strategy():
    paper = Paper()
    before = paper.configuration
    paper.ask(ALL_TO_1, strategies.fluid(gap=1))
    paper.step(4)
    assert moved(paper) == 2
    paper.abort("r1")
    assert paper.phase("r1") == "reversing"
    assert paper.step(4) == [["r1"], [], ["r1"], []]
    record = paper.state.find("r1")
    assert (record.phase, record.reason, len(record.taken)) == (Phase.UNDONE, "aborted", 4)
    assert replace(paper.configuration, version=1) == before


def test_tasks_and_numbers_are_led_back_too():
    paper = Paper()
    before = paper.configuration
    change = [
        changes.rescale("counts", 4),
        changes.combine("counts", "off"),
        changes.set_interval(50),
    ]
    paper.facts = StreamFacts(combinable=frozenset({"counts"}))
    paper.ask(change, strategies.fluid())
    paper.step()
    here = paper.configuration
    assert (here.operators["counts"].tasks, here.interval_ms) == (4, 50)
    assert here.operators["counts"].combine is Combine.OFF
    paper.abort("r1")
    paper.step(3)
    assert replace(paper.configuration, version=1) == before
    assert paper.phase("r1") == "undone"


def test_what_else_has_changed_meanwhile_is_not_led_back():
    paper = Paper()
    paper.ask(ALL_TO_1, strategies.fluid())
    paper.step()
    counts = paper.configuration.operators["counts"]
    paper.configuration = paper.configuration.with_operator(
        "counts", replace(counts, combining=False)
    )
    paper.ask(changes.move("sums", 0, 1))
    paper.abort("r1")
    paper.step(2)
    assert (moved(paper), moved(paper, "sums")) == (0, 1)
    assert paper.configuration.operators["counts"].combining is False


def test_a_budget_holds_on_the_way_back():
    paper = Paper(size=10.0)
    paper.ask(ALL_TO_1, strategies.batched(2, budget_bytes=10))
    paper.step(3)
    paper.abort("r1")
    paper.step(4)
    assert [taken.bins for taken in paper.state.find("r1").taken] == [1] * 6
    assert moved(paper) == 0


def test_one_that_has_made_its_last_step_cannot_be_aborted():
    paper = Paper(drained=False)
    paper.ask(ALL_TO_1)
    paper.begin()
    with pytest.raises(
        RefusedError, match="r1 has made its last step; request the opposite change"
    ):
        paper.abort("r1")
    paper.commit()
    assert paper.phase("r1") == "done"


def test_what_is_over_or_led_back_already_cannot_be_aborted():
    paper = Paper()
    paper.ask(ALL_TO_1)
    paper.step()
    with pytest.raises(RefusedError, match="r1 is done"):
        paper.abort("r1")
    paper.ask(changes.move("counts", [0, 1], 0), strategies.fluid())
    paper.step()
    paper.abort("r2")
    with pytest.raises(RefusedError, match="r2 is reversing"):
        paper.abort("r2")


def test_nobody_can_abort_what_was_never_asked_for():
    with pytest.raises(NotReadyError, match=r"no reconfiguration 'r7'; there are \[\]"):
        Paper().abort("r7")
