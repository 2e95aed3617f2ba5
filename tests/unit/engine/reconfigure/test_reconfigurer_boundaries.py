"""What the reconfigurer decides and writes at timestep boundaries and while a stream is idle."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from rechannel import changes
from rechannel.engine.journal.entries import Intent
from rechannel.engine.reconfigure.prefetch_plan import AGAIN
from rechannel.engine.reconfigure.preparer import NothingToPrepare
from rechannel.model.routing import Routing, even_starts
from rechannel.reconfigure import strategies
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.record import Phase
from tests.support.changing import program
from tests.support.reconfiguring import HALF, Hands, Preparer


def ready(hands: Hands, change: Change = HALF, **more: Any) -> str:
    id_ = hands.asked(change, **more)
    hands.executor.run(0)
    hands.turn()
    return id_


def test_a_decision_is_not_written_before_the_timestep_has_something_to_read():
    hands = Hands()
    ready(hands)
    number = hands.journal.state.number
    decision = hands.changes.decide(hands.here)
    assert [step.id for step in decision.steps] == ["r1"]
    assert hands.journal.state.number == number


def steps_on(hands: Hands) -> None:
    """The next timestep begins, with whatever step is due."""
    decision = hands.changes.decide(hands.here)
    hands.changes.journal_decision(decision)
    new = decision.configuration.version != hands.here.configuration.version
    first = hands.here.timestep == 1
    hands.journal.append(
        Intent(
            timestep=hands.here.timestep,
            sources={},
            configuration_version=decision.configuration.version,
            configuration=decision.configuration if new or first else None,
            stream_ms=100,
            steps=decision.steps,
        )
    )
    hands.here = structs.replace(
        hands.here, timestep=hands.here.timestep + 1, configuration=decision.configuration
    )


SWAPPED = changes.assign_workload(
    "counts", Routing(starts=even_starts(8), owners=(1,) * 4 + (0,) * 4, tasks=2)
)


def test_while_it_moves_the_next_steps_are_prepared_one_thing_at_a_time_and_told_at_the_end():
    hands = Hands(Preparer({"bytes": 5}))
    hands.preparer.total = {"bytes": 9}
    ready(hands, SWAPPED, strategy=strategies.fluid())
    for _ in range(AGAIN - 1):
        steps_on(hands)
        hands.turn()
    assert len(hands.executor) == 0
    steps_on(hands)
    hands.turn()
    hands.turn()
    assert len(hands.executor) == 1
    hands.executor.run(0)
    hands.turn()
    assert len(hands.executor) == 0  # not before some more steps are made
    assert hands.preparer.heard == [("prepare", "r1"), ("ahead", "r1 4")]
    while hands.find("r1").left:
        steps_on(hands)
        hands.turn()
    assert (hands.find("r1").prepared, len(hands.executor)) == ({"bytes": 5}, 0)
    hands.changes.finish_completed(hands.here.timestep, 200)
    assert (hands.phase("r1"), hands.find("r1").prepared) == ("done", {"bytes": 9})


def test_what_waits_for_its_timestep_is_prepared_once_more_shortly_before():
    hands = Hands()
    ready(hands, at_timestep=20)
    heard = []
    while hands.here.timestep < 20:
        steps_on(hands)
        hands.turn()
        while len(hands.executor):
            hands.executor.run(0)
            heard.append(hands.here.timestep)
    assert heard == [12, 16]
    assert hands.preparer.heard == [("prepare", "r1")] + [("ahead", "r1 0")] * 2
    steps_on(hands)
    hands.changes.finish_completed(20, 200)
    assert (hands.phase("r1"), hands.changes._preparations._refreshed) == ("done", {})


def asked_for_more(hands: Hands) -> None:
    """A change that moves step by step, whose next steps are about to be prepared."""
    ready(hands, SWAPPED, strategy=strategies.fluid())
    for _ in range(AGAIN):
        steps_on(hands)
        hands.turn()
    assert len(hands.executor) == 1


def test_whoever_waits_for_an_idle_stream_waits_for_what_is_fetched_too():
    hands = Hands()
    assert not hands.changes.fetching
    asked_for_more(hands)
    while hands.changes.make_idle_steps(hands.here)[1]:
        pass
    assert hands.find("r1").left
    assert hands.changes.fetching
    hands.executor.run(0)
    assert not hands.changes.fetching


def test_what_another_one_supersedes_is_let_go_and_what_was_done_ahead_is_told():
    hands = Hands()
    asked_for_more(hands)
    hands.preparer.total = {"bytes": 9}
    hands.asked(changes.rescale("counts", 1), supersede=True)
    assert [(record.phase, record.prepared) for record in hands.told] == [
        (Phase.SUPERSEDED, {"bytes": 9})
    ]
    assert hands.changes._preparations._next_steps == {}
    hands.executor.run(0)
    assert ("ahead", "r1 4") not in hands.preparer.heard


def test_what_is_done_ahead_of_a_change_that_ends_meanwhile_is_let_go_when_it_is_done():
    hands = Hands()
    asked_for_more(hands)
    _, busy = hands.changes._preparations._next_steps["r1"]
    busy.set_running_or_notify_cancel()
    hands.asked(changes.rescale("counts", 1), supersede=True)
    before = list(hands.preparer.heard)
    busy.set_result(None)
    assert hands.preparer.heard == [*before, ("facts", "r1")]


def test_without_preparation_nothing_is_prepared_while_it_moves_either():
    hands = Hands()
    hands.asked(SWAPPED, strategy=strategies.fluid(prepare=False))
    hands.turn()
    while hands.phase("r1") == "ready" or hands.find("r1").left:
        steps_on(hands)
        hands.turn()
    assert hands.preparer.heard == []


def test_where_nothing_is_open_a_timestep_begins_as_the_one_before():
    hands = Hands()
    assert hands.changes.decide(hands.here).configuration is hands.here.configuration


def look(hands: Hands) -> bool:
    """The driver looks at an idle stream: whether the next look would bring anything further."""
    configuration, further = hands.changes.make_idle_steps(hands.here)
    hands.here = structs.replace(hands.here, configuration=configuration)
    return further


def owners(hands: Hands) -> list[int]:
    routing = hands.here.configuration.operators["counts"].routing
    assert routing is not None
    return list(routing.owners)


def test_an_idle_stream_changes_without_a_timestep():
    hands = Hands()
    ready(hands, strategy=strategies.fluid(2))
    ready(hands, changes.move("counts", [0, 1], 0))
    seen = [(look(hands), owners(hands)[:4]) for _ in range(4)]
    assert seen == [
        (True, [1, 1, 0, 0]), (True, [1, 1, 1, 1]), (True, [0, 0, 1, 1]), (False, [0, 0, 1, 1]),
    ]  # fmt: skip
    assert [record.phase for record in hands.told] == [Phase.DONE, Phase.DONE]
    state = hands.journal.state
    assert (state.last_intended, state.configuration_at(1)) == (None, hands.here.configuration)


def test_a_gap_is_kept_by_an_idle_stream_look_by_look():
    hands = Hands()
    ready(hands, strategy=strategies.fluid(gap=2))
    moved = []
    while look(hands):
        moved.append(sum(owners(hands)[:4]))
    assert moved == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4]


def test_looks_and_timesteps_count_alike_for_a_gap():
    hands = Hands()
    ready(hands, strategy=strategies.fluid(gap=2))
    steps_on(hands)
    hands.changes.finish_completed(1, 100)
    assert [look(hands) and sum(owners(hands)) for _ in range(3)] == [5, 5, 6]
    steps_on(hands)
    steps_on(hands)
    assert sum(owners(hands)) == 6
    steps_on(hands)
    assert sum(owners(hands)) == 7


def test_an_idle_stream_waits_until_what_moves_next_is_fetched():
    """Else the next timestep would fetch all of it."""
    hands = Hands()
    ready(hands, SWAPPED, strategy=strategies.fluid())
    for _ in range(AGAIN):
        hands.turn()
        assert look(hands)
    hands.turn()
    assert len(hands.executor) == 1
    assert look(hands)  # one more of those that were fetched before
    assert not look(hands)
    assert len(hands.find("r1").taken) == AGAIN + 1
    hands.executor.run(0)
    assert look(hands)
    assert look(hands)
    assert len(hands.find("r1").taken) == AGAIN + 2


def test_what_is_written_anew_waits_for_a_timestep():
    hands = Hands()
    ready(hands, changes.rewrite("counts"), strategy=strategies.fluid())
    steps_on(hands)
    assert [look(hands), look(hands)] == [False, False]
    assert len(hands.find("r1").taken) == 1


def test_a_change_for_later_leaves_an_idle_stream_alone():
    hands = Hands()
    hands.asked(at_timestep=2)
    assert hands.changes.make_idle_steps(hands.here) == (hands.here.configuration, False)
    assert hands.phase("r1") == "waiting"


def test_what_made_its_last_step_is_over_when_that_timestep_is_committed():
    hands = Hands()
    ready(hands)
    decision = hands.changes.decide(hands.here)
    hands.changes.journal_decision(decision)
    hands.journal.append(
        Intent(
            timestep=1,
            sources={},
            configuration_version=decision.configuration.version,
            configuration=decision.configuration,
            stream_ms=100,
            steps=decision.steps,
        )
    )
    hands.changes.finish_completed(0, 150)
    assert hands.phase("r1") == "moving"
    hands.changes.finish_completed(1, 200)
    assert (hands.phase("r1"), hands.find("r1").times["done"]) == ("done", 200)
    assert hands.preparer.heard[-1] == ("done", "r1")


def test_the_next_driver_prepares_again_what_it_can_and_rolls_back_what_it_cannot():
    hands = Hands()
    ready(hands)
    after = Hands(store=hands.store)
    after.changes.resume(after.here)
    assert after.phase("r1") == "waiting"
    assert after.turn()
    assert after.executor.run(0)
    other = Hands(store=hands.store)
    other.preparer.cannot = "no such function"
    other.changes.resume(other.here)
    assert other.find("r1").reason == "rolled back: no such function"
    last = Hands(store=hands.store)
    number = last.journal.state.number
    last.changes.resume(last.here)  # nothing is open
    assert last.journal.state.number == number


def test_a_program_is_not_exchanged_by_an_idle_stream_but_at_a_border():
    hands = Hands()
    ready(hands, program(2))
    assert hands.changes.make_idle_steps(hands.here) == (hands.here.configuration, False)
    assert hands.phase("r1") == "ready"


def test_where_nothing_has_to_be_prepared_everything_can_be_taken_up():
    hands, nothing = Hands(), NothingToPrepare()
    record = hands.find(hands.asked())
    now = hands.changes.view(hands.here)
    assert (nothing.prepare(record, now, {}), nothing.impossible(record)) == ({}, None)
