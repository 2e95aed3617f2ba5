"""Preparing changes beside the timesteps: what is ready, what fails, what is let go."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from msgspec import structs

from rechannel import changes
from rechannel.engine.reconfigure.preparer import LiveManifests
from rechannel.errors import (
    NotReadyError,
)
from rechannel.reconfigure import strategies
from rechannel.reconfigure.coordination import KEPT
from rechannel.reconfigure.record import Phase, Record
from rechannel.reconfigure.requests import Request
from rechannel.state.manifest import Manifest
from tests.support.reconfiguring import HALF, Hands, Preparer, accepted


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
    hands.here = structs.replace(hands.here, timestep=5, time_ms=700)
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
    hands.abort("r1")
    hands.executor.run(0)
    assert not hands.turn()
    assert hands.phase("r1") == "aborted"


def test_what_is_prepared_after_an_abort_is_let_go():
    hands = Hands()
    hands.asked()
    hands.abort("r1")
    hands.executor.run(0)
    hands.turn()
    assert hands.preparer.heard[-1] == ("aborted", "r1")
    assert hands.preparer.heard.index(("prepare", "r1")) < len(hands.preparer.heard) - 1


def test_a_change_for_a_timestep_that_has_begun_does_not_care_for_its_preparation():
    hands = Hands(Preparer(NotReadyError("no room")))
    hands.asked(at_timestep=1)
    decision = hands.changes.decide(hands.here)
    hands.changes.journal_decision(decision)
    hands.executor.run(0)
    assert not hands.turn()
    assert hands.phase("r1") == "moving"


def test_a_preparation_may_end_when_its_record_is_forgotten():
    hands = Hands()
    hands.asked()
    hands.abort("r1")
    for _ in range(KEPT):
        request = Request(change=HALF, strategy=strategies.all_at_once())
        id_ = accepted(hands.changes, request, hands.here)
        hands.abort(id_)
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
    accepted(hands.changes, request, hands.here)
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
