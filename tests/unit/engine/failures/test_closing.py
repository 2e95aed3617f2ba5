"""The end of a job: every step is taken, and none for ever."""

from __future__ import annotations

import threading

from rechannel.engine.failures.closing import close_all, reason_of
from rechannel.errors import FencedError, SessionError, StorageError, UserFunctionError


def nothing() -> None:
    return None


def test_a_step_that_fails_does_not_keep_the_next_from_its_turn():
    taken = []

    def fails() -> None:
        taken.append("fails")
        raise ConnectionError("nobody answers")

    failures = close_all([("a", fails), ("b", lambda: taken.append("b"))], seconds=10)
    assert taken == ["fails", "b"]
    assert failures == ["closing a failed: ConnectionError: nobody answers"]


def test_a_step_that_hangs_is_not_waited_for():
    hang, taken = threading.Event(), []
    steps = [("a", hang.wait), ("b", lambda: taken.append("b"))]
    failures = close_all(steps, seconds=0.05)
    hang.set()
    assert taken == ["b"]
    assert failures[0].startswith("closing a takes longer than")


def test_even_a_step_that_ends_its_thread_is_survived():
    def leaves() -> None:
        raise SystemExit(3)

    assert close_all([("a", leaves)], seconds=10) == ["closing a failed: SystemExit: 3"]


def test_an_error_is_told_by_what_is_behind_it():
    plain = UserFunctionError("no luck")
    assert reason_of(plain, nothing, nothing) is plain

    fenced = FencedError("another driver took over")
    assert reason_of(plain, lambda: fenced, lambda: "dead") is fenced
    assert fenced.__cause__ is plain

    gone = reason_of(plain, nothing, lambda: "Spark's JVM has ended by signal SIGKILL")
    assert isinstance(gone, SessionError)
    assert "SIGKILL" in str(gone)
    assert gone.__cause__ is plain


def test_who_cannot_ask_the_journal_keeps_the_error():
    def away() -> None:
        raise StorageError("away")

    plain = UserFunctionError("no luck")
    assert reason_of(plain, away, nothing) is plain
    stop = KeyboardInterrupt()
    assert reason_of(stop, away, lambda: "dead") is stop
