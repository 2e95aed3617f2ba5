"""Requests to a running driver: who is answered when, and what a refusal or the end of the job means."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from rechannel import changes
from rechannel.engine.reconfigure.calls import wait_for
from rechannel.errors import (
    NoAnswerError,
    RefusedError,
    StorageError,
    UnknownOperatorError,
)
from rechannel.reconfigure import strategies
from rechannel.state.stores.faulty import Crash
from tests.support.changing import two
from tests.support.reconfiguring import Hands


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
        hands.changes.request_abort("r1", None),
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
    with pytest.raises(TimeoutError, match=r"not begun the change .* withdrawn") as raised:
        wait_for(answers[0], "the change", 0)
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

    assert wait_for(Late(), "the change", 0.25) == "r1"


def test_who_stops_waiting_while_it_is_done_hears_that_it_may_still_be():
    answer: Future[str] = Future()
    answer.set_running_or_notify_cancel()
    with pytest.raises(NoAnswerError, match=r"began the change .* may still be carried out"):
        wait_for(answer, "the change", 0)


def test_a_call_that_itself_ran_out_of_time_says_so_in_its_own_words():
    answer: Future[str] = Future()
    answer.set_exception(TimeoutError("a store's"))
    with pytest.raises(TimeoutError, match="a store's") as raised:
        wait_for(answer, "the change", 0)
    assert not isinstance(raised.value, NoAnswerError)


def test_an_abort_is_answered_too():
    hands = Hands()
    hands.asked()
    done = hands.changes.request_abort("r1", "no more")
    again = hands.changes.request_abort("r1", "no more")
    hands.turn()
    assert done.result(0) is None
    with pytest.raises(RefusedError, match="r1 is aborted"):
        again.result(0)
    assert (hands.phase("r1"), hands.find("r1").reason) == ("aborted", "no more")


def test_a_look_sees_what_a_request_would_be_judged_by():
    hands = Hands()
    seen = hands.changes.request_view()
    hands.turn()
    now = seen.result(0)
    assert (now.timestep, now.time_ms, now.configuration) == (1, 100, two())
    assert (now.facts.combinable, now.facts.sources) == (frozenset({"counts"}), frozenset({"in"}))
    assert now.facts.places == {"counts": {0: "3"}}


def test_whoever_waits_for_an_answer_when_the_job_ends_is_refused():
    hands = Hands()
    answers = [hands.ask(), hands.changes.request_view()]
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
