"""The coordinator's hands: who is answered when, what is prepared, and what a crash leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel import changes
from rechannel.engine.journal.entries import ConfigurationChanged, Intent, Opened, Reconfiguring
from rechannel.engine.journal.log import Journal
from rechannel.engine.program.position import StreamPosition
from rechannel.engine.reconfigure.calls import waited
from rechannel.engine.reconfigure.measured import Measured
from rechannel.engine.reconfigure.prefetch_plan import AGAIN
from rechannel.engine.reconfigure.preparer import LiveManifests, NothingToPrepare
from rechannel.engine.reconfigure.reconfigurer import Reconfigurer
from rechannel.errors import (
    NoAnswerError,
    NotReadyError,
    RefusedError,
    StorageError,
    UnknownOperatorError,
)
from rechannel.job import InProcess, Job
from rechannel.model.routing import Routing, even_starts
from rechannel.reconfigure import strategies
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.coordination import KEPT
from rechannel.reconfigure.record import Phase, Record
from rechannel.reconfigure.requests import Request
from rechannel.reconfigure.steps import Sizes
from rechannel.settings import Settings
from rechannel.state.keys import RECONFIGURATIONS
from rechannel.state.manifest import Manifest
from rechannel.state.stores.faulty import Crash, Fault, FaultKind
from rechannel.testing import Harness, ManualClock, MemoryStore, script
from rechannel.testing.process import StepExecutor
from tests.support.changing import program, two

HALF = changes.move("counts", [0, 1, 2, 3], 1)


class Preparer(NothingToPrepare):
    """Writes down what it is asked; `result` is what it finds, or raises."""

    def __init__(self, result: dict[str, Any] | BaseException | None = None) -> None:
        self.result = {} if result is None else result
        self.heard: list[tuple[str, str]] = []
        self.cannot: str | None = None
        self.total: dict[str, Any] = {}

    def prepare(self, record: Record, now: Any, manifests: Any) -> dict[str, Any]:
        del now, manifests
        self.heard.append(("prepare", record.id))
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result

    def prepare_next_steps(self, record: Record, now: Any, manifests: Any) -> None:
        self.heard.append(("ahead", f"{record.id} {len(record.left)}"))

    def final_facts(self, record: Record) -> dict[str, Any]:
        if record.phase is Phase.SUPERSEDED:
            self.heard.append(("facts", record.id))
        return self.total

    def impossible(self, record: Record) -> str | None:
        return self.cannot

    def places(self) -> dict[str, dict[int, str]]:
        return {"counts": {0: "3"}}

    def release(self, record: Record) -> None:
        self.heard.append((str(record.phase), record.id))


@dataclass
class Hands:
    """A reconfigurer without a driver around it."""

    preparer: Preparer = field(default_factory=Preparer)
    executor: StepExecutor | None = field(default_factory=StepExecutor)
    store: MemoryStore = field(default_factory=MemoryStore)
    told: list[Record] = field(default_factory=list)
    woken: int = 0

    def __post_init__(self) -> None:
        self.journal, _ = Journal.open(self.store, keep_versions=1, snapshot_every=64)
        self.journal.append(Opened(host="test", pid=0, time_ms=0, fingerprint="", version="0"))
        self.here = StreamPosition(timestep=1, time_ms=100, configuration=two(), drained=True)
        self.changes = Reconfigurer(
            journal=self.journal,
            measured=Measured(dict),
            preparer=self.preparer,
            wake=self.wake,
            executor=self.executor,
            tell=self.told.append,
        )

    def wake(self) -> None:
        self.woken += 1

    def ask(self, change: Change = HALF, **more: Any) -> Future[str]:
        request = Request(
            change=change, strategy=more.pop("strategy", strategies.all_at_once()), **more
        )
        return self.changes.ask(request)

    def turn(self) -> bool:
        return self.changes.turn(self.here, dict)

    def asked(self, change: Change = HALF, **more: Any) -> str:
        """The id of a request that is answered; its preparation is held."""
        answer = self.ask(change, **more)
        assert self.turn()
        return answer.result(0)

    def find(self, id_: str) -> Record:
        return self.changes.coordination.find(id_)

    def phase(self, id_: str) -> str:
        return str(self.find(id_).phase)


# Requests ------------------------------------------------------------------------------------------


def test_a_request_is_answered_when_the_driver_comes_round():
    hands = Hands()
    answer = hands.ask()
    assert (answer.done(), hands.woken, hands.changes.coordination.serial) == (False, 1, 0)
    assert hands.turn()
    assert answer.result(0) == "r1"
    assert hands.phase("r1") == "waiting"


def test_where_nothing_is_asked_nothing_happens():
    assert not Hands().turn()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (changes.move("counts", 99, 0), RefusedError),
        (changes.rescale("nobody", 2), UnknownOperatorError),
    ],
)
def test_a_refusal_goes_to_who_asked_and_the_driver_goes_on(change, error):
    hands = Hands()
    answer = hands.ask(change)
    assert hands.turn()
    with pytest.raises(error):
        answer.result(0)
    assert hands.journal.state.number == 1
    assert hands.asked() == "r1"


def test_what_nobody_expected_goes_to_who_asked_and_the_driver_goes_on():
    hands = Hands()
    hands.asked()
    answers = [
        hands.ask(strategy=strategies.fluid),
        hands.ask(cause=None),
        hands.changes.cancel("r1", None),
    ]
    hands.asked()
    for answer, error in zip(answers, (TypeError, RefusedError, RefusedError), strict=True):
        with pytest.raises(error):
            answer.result(0)
    assert hands.asked() == "r3"


@pytest.mark.parametrize("error", [StorageError("no room"), OSError("no room"), Crash("dead")])
def test_a_journal_that_cannot_be_written_ends_the_driver_too(monkeypatch, error):
    hands = Hands()

    def full(body):
        raise error

    monkeypatch.setattr(hands.journal, "append", full)
    answer = hands.ask()
    with pytest.raises(type(error)):
        hands.turn()
    with pytest.raises(type(error)):
        answer.result(0)


def test_who_stops_waiting_has_not_asked():
    hands = Hands()
    answers = [hands.ask(), hands.ask()]
    with pytest.raises(TimeoutError, match=r"not come to the change .* taken back") as raised:
        waited(answers[0], "the change", 0)
    assert isinstance(raised.value, NoAnswerError)
    assert hands.turn()
    assert [r.id for r in hands.changes.coordination.records] == ["r1"]
    assert answers[1].result(0) == "r1"
    answers = [hands.ask(), hands.ask()]
    answers[0].cancel()
    hands.changes.close()
    assert answers[0].cancelled()


def test_who_stops_waiting_when_it_has_begun_gets_what_comes_of_it():
    answer: Future[str] = Future()
    answer.set_running_or_notify_cancel()
    late = threading.Thread(target=lambda: answer.set_result("r1"))

    class Late(Future):
        def result(self, timeout=None):
            if timeout == 0.25 and not late.is_alive() and not answer.done():
                late.start()
                raise TimeoutError
            return answer.result(60)

        def cancel(self):
            return answer.cancel()

    assert waited(Late(), "the change", 0.25) == "r1"


def test_who_stops_waiting_while_it_is_done_hears_that_it_may_still_be():
    answer: Future[str] = Future()
    answer.set_running_or_notify_cancel()
    with pytest.raises(NoAnswerError, match=r"began with the change .* may still be carried out"):
        waited(answer, "the change", 0)


def test_a_call_that_itself_ran_out_of_time_says_so_in_its_own_words():
    answer: Future[str] = Future()
    answer.set_exception(TimeoutError("a store's"))
    with pytest.raises(TimeoutError, match="a store's") as raised:
        waited(answer, "the change", 0)
    assert not isinstance(raised.value, NoAnswerError)


def test_an_abort_is_answered_too():
    hands = Hands()
    hands.asked()
    done = hands.changes.cancel("r1", "no more")
    again = hands.changes.cancel("r1", "no more")
    hands.turn()
    assert done.result(0) is None
    with pytest.raises(RefusedError, match="r1 is aborted"):
        again.result(0)
    assert (hands.phase("r1"), hands.find("r1").reason) == ("aborted", "no more")


def test_a_look_sees_what_a_request_would_be_judged_by():
    hands = Hands()
    hands.changes.know(frozenset({"counts"}), frozenset({"in"}))
    seen = hands.changes.look()
    hands.turn()
    now = seen.result(0)
    assert (now.timestep, now.time_ms, now.configuration) == (1, 100, two())
    assert (now.facts.combinable, now.facts.sources) == (frozenset({"counts"}), frozenset({"in"}))
    assert now.facts.places == {"counts": {0: "3"}}


def test_whoever_waits_for_an_answer_when_the_job_ends_is_refused():
    hands = Hands()
    answers = [hands.ask(), hands.changes.look()]
    hands.changes.close()
    for answer in answers:
        with pytest.raises(RefusedError, match="the job has ended"):
            answer.result(0)


def test_whoever_asks_after_the_end_is_refused():
    hands = Hands()
    hands.changes.close()
    assert hands.ask().done()


def test_a_reconfigurer_that_is_closed_twice_is_closed():
    hands = Hands(executor=None)
    hands.asked()
    hands.changes.close()
    hands.changes.close()


# Preparing -----------------------------------------------------------------------------------------


def test_a_change_is_ready_when_it_is_prepared():
    hands = Hands(Preparer({"bytes": 5}))
    hands.asked()
    assert not hands.turn()  # it is under way, and not asked for again
    woken = hands.woken
    hands.executor.run(0)
    assert hands.woken == woken + 1
    assert hands.phase("r1") == "waiting"  # the driver says what is journalled
    assert hands.turn()
    assert (hands.phase("r1"), hands.find("r1").prepared) == ("ready", {"bytes": 5})
    assert hands.preparer.heard == [("prepare", "r1")]


def test_a_preparation_takes_as_long_as_timesteps_went_on_beside_it():
    hands = Hands()
    hands.asked()
    hands.executor.run(0)
    hands.here = replace(hands.here, timestep=5, time_ms=700)
    assert hands.turn()
    assert dict(hands.find("r1").times) == {"waiting": 100, "ready": 700}


def test_a_preparation_sees_manifests_as_they_are_when_it_looks():
    state = {"counts": Manifest()}
    latest = LiveManifests(lambda: state)
    assert dict(latest) == state
    state = {"others": Manifest()}
    assert (len(latest), list(latest), latest.get("counts")) == (1, ["others"], None)


def test_a_strategy_may_do_without_preparation():
    hands = Hands()
    hands.asked(strategy=strategies.all_at_once(prepare=False))
    assert hands.turn()
    assert (hands.phase("r1"), hands.find("r1").prepared) == ("ready", {"skipped": True})
    assert (hands.preparer.heard, len(hands.executor)) == ([], 0)


def test_executors_are_asked_for_also_without_preparation():
    hands = Hands()
    hands.asked(changes.executors(2), strategy=strategies.all_at_once(prepare=False))
    assert (hands.phase("r1"), len(hands.executor)) == ("waiting", 1)


@pytest.mark.parametrize("error", [NotReadyError("no room"), KeyError("no room")], ids=repr)
def test_a_preparation_that_fails_fails_the_change_and_nothing_else(error):
    hands = Hands(Preparer(error))
    hands.asked()
    hands.executor.run(0)
    hands.turn()
    record = hands.find("r1")
    assert record.phase is Phase.FAILED
    assert record.reason.startswith("preparation failed: ")
    assert "no room" in record.reason
    assert record.taken == ()
    assert hands.told == [record]
    assert hands.preparer.heard == [("prepare", "r1"), ("failed", "r1")]
    hands.preparer.result = {}
    assert hands.asked() == "r2"


@pytest.mark.parametrize("error", [None, NotReadyError("no room")], ids=repr)
def test_a_preparation_that_ends_after_an_abort_is_of_no_use(error):
    hands = Hands(Preparer(error))
    hands.asked()
    hands.changes.abort("r1", "no more", hands.here)
    hands.executor.run(0)
    assert not hands.turn()
    assert hands.phase("r1") == "aborted"


def test_what_is_prepared_after_an_abort_is_let_go():
    hands = Hands()
    hands.asked()
    hands.changes.abort("r1", "no more", hands.here)
    hands.executor.run(0)
    hands.turn()
    assert hands.preparer.heard[-1] == ("aborted", "r1")
    assert hands.preparer.heard.index(("prepare", "r1")) < len(hands.preparer.heard) - 1


def test_a_change_for_a_timestep_that_has_begun_does_not_care_for_its_preparation():
    hands = Hands(Preparer(NotReadyError("no room")))
    hands.asked(at_timestep=1)
    decision = hands.changes.decide(hands.here)
    hands.changes.journal(decision)
    hands.executor.run(0)
    assert not hands.turn()
    assert hands.phase("r1") == "moving"


def test_a_preparation_may_end_when_its_record_is_forgotten():
    hands = Hands()
    hands.asked()
    hands.changes.abort("r1", "no more", hands.here)
    for _ in range(KEPT):
        id_ = hands.changes.accept(
            Request(change=HALF, strategy=strategies.all_at_once()), hands.here
        )
        hands.changes.abort(id_, "no more", hands.here)
    hands.executor.run(0)
    hands.turn()


def test_preparations_have_a_thread_of_their_own():
    seen: list[str] = []

    class Slow(Preparer):
        def prepare(self, record: Record, now: Any, manifests: Any) -> dict[str, Any]:
            seen.append(threading.current_thread().name)
            return {}

    hands, woken = Hands(Slow(), executor=None), threading.Event()
    hands.wake = woken.set  # type: ignore[method-assign]
    hands.changes._preparations._wake = woken.set
    request = Request(change=HALF, strategy=strategies.all_at_once())
    hands.changes.accept(request, hands.here)
    hands.turn()
    assert woken.wait(60)
    hands.turn()
    assert hands.phase("r1") == "ready"
    assert seen[0].startswith("rechannel-prepare")
    hands.changes.close()


def test_a_preparation_that_nobody_began_is_dropped_when_the_job_ends():
    began, go_on = threading.Semaphore(0), threading.Event()

    class Slow(Preparer):
        def prepare(self, record: Record, now: Any, manifests: Any) -> dict[str, Any]:
            began.release()
            go_on.wait(60)
            return {}

    hands = Hands(Slow(), executor=None)
    for task in range(6):  # more than there are threads
        hands.asked(changes.executors(task + 1))
    for _ in range(4):
        assert began.acquire(timeout=60)
    hands.changes.close()
    go_on.set()
    assert not began.acquire(blocking=False)
    assert {record.phase for record in hands.changes.coordination.records} == {Phase.WAITING}


# Borders -------------------------------------------------------------------------------------------


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
    hands.changes.journal(decision)
    new = decision.configuration.version != hands.here.configuration.version
    first = hands.here.timestep == 1
    hands.journal.append(
        Intent(
            timestep=hands.here.timestep,
            sources={},
            configuration_version=decision.configuration.version,
            configuration=decision.configuration if new or first else None,
            now_ms=100,
            steps=decision.steps,
        )
    )
    hands.here = replace(
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
    hands.changes.settle(hands.here.timestep, 200)
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
    hands.changes.settle(20, 200)
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
    while hands.changes.idle(hands.here)[1]:
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
    configuration, further = hands.changes.idle(hands.here)
    hands.here = replace(hands.here, configuration=configuration)
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
    hands.changes.settle(1, 100)
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
    assert hands.changes.idle(hands.here) == (hands.here.configuration, False)
    assert hands.phase("r1") == "waiting"


def test_what_made_its_last_step_is_over_when_that_timestep_is_committed():
    hands = Hands()
    ready(hands)
    decision = hands.changes.decide(hands.here)
    hands.changes.journal(decision)
    hands.journal.append(
        Intent(
            timestep=1,
            sources={},
            configuration_version=decision.configuration.version,
            configuration=decision.configuration,
            now_ms=100,
            steps=decision.steps,
        )
    )
    hands.changes.settle(0, 150)
    assert hands.phase("r1") == "moving"
    hands.changes.settle(1, 200)
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
    assert hands.changes.idle(hands.here) == (hands.here.configuration, False)
    assert hands.phase("r1") == "ready"


def test_where_nothing_has_to_be_prepared_everything_can_be_taken_up():
    hands, nothing = Hands(), NothingToPrepare()
    record = hands.find(hands.asked())
    now = hands.changes.now(hands.here)
    assert (nothing.prepare(record, now, {}), nothing.impossible(record)) == ({}, None)


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
    answer = process.changes.ask(request)
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
    hands.changes.decide(replace(hands.here, timestep=9))
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
        ({"cause": None}, "cause is a text"),
        ({"cause": 5}, "cause is a text"),
        ({"at": 10**100}, "at is the number of a timestep, at most"),
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
    with pytest.raises(RefusedError, match="reason is a text"):
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
