"""Calls that may not hold up a task, and values that may not be too large."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from rechannel.kernels.tasks import limited
from rechannel.kernels.tasks.limited import Budget, FailedCallError, OverrunError, exceeds, within


@dataclass(frozen=True)
class Pair:
    one: str
    other: list[int]


def test_a_call_returns_what_it_returns():
    assert within(5, lambda: 3) == 3


def test_what_a_call_raises_comes_with_its_traceback():
    def wrong() -> None:
        raise KeyError("it")

    with pytest.raises(FailedCallError, match=r"(?s)in wrong.*KeyError: 'it'"):
        within(5, wrong)


def test_a_call_that_ends_the_process_ends_only_itself():
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(FailedCallError, match="SystemExit: 3"):
        within(5, leave)


def test_an_endless_call_is_interrupted():
    rounds = []

    def forever() -> None:
        while True:
            try:
                rounds.append(1)
                time.sleep(0)
            except Exception:
                continue

    with pytest.raises(FailedCallError, match=r"longer than 0\.05 s"):
        within(0.05, forever)
    count = len(rounds)
    time.sleep(0.05)
    assert rounds  # it has run
    assert len(rounds) == count  # and does not any more


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """A call that no interrupt ends, until the test is over."""
    monkeypatch.setattr(limited, "GRACE_SECONDS", 0.02)
    free = threading.Event()

    def wait() -> None:
        while not free.is_set():
            try:
                free.wait(0.001)
            except BaseException:
                continue

    yield wait
    threads = [thread for _, thread in limited._left]
    free.set()
    for thread in threads:
        thread.join(60)


def test_calls_that_cannot_be_ended_leave_few_threads(stuck: Callable[[], None]):
    before = threading.active_count()
    said = []
    for _ in range(2 * limited.MOST_LEFT_OF_ONE):
        with pytest.raises(FailedCallError) as failed:
            within(0.01, stuck, "one")
        said.append(str(failed.value))
    most = limited.MOST_LEFT_OF_ONE
    assert said[:most] == ["it took longer than 0.01 s"] * most
    assert all(text.startswith(f"it is not called: {most} calls before") for text in said[most:])
    assert len(limited._left) == most
    assert threading.active_count() <= before + most
    assert within(60, lambda: 3, "another") == 3


def test_calls_are_made_again_once_those_that_were_stuck_have_ended(
    stuck: Callable[[], None], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(limited, "MOST_LEFT", 1)
    with pytest.raises(FailedCallError, match="longer than"):
        within(0.01, stuck, "one")
    with pytest.raises(FailedCallError, match=r"0 calls before it are stuck .* 1 with those of"):
        within(60, lambda: 3, "another")
    ((_, thread),) = limited._left
    monkeypatch.setattr(thread, "is_alive", lambda: False)
    assert within(60, lambda: 3, "another") == 3
    limited._left.append(("one", thread))  # for the fixture
    monkeypatch.undo()


def test_a_budget_is_for_all_calls_together():
    budget, calls = Budget(0.2, "one"), []
    assert budget.within(lambda: 3) == 3
    assert not budget.spent
    with pytest.raises(OverrunError, match=r"longer than 0\.2 s"):
        budget.within(lambda: time.sleep(0.3))
    assert budget.spent
    with pytest.raises(OverrunError, match=r"longer than 0\.2 s"):
        budget.within(lambda: calls.append(1))
    assert not calls


def test_what_a_call_raises_leaves_the_rest_of_a_budget():
    budget = Budget(60)
    with pytest.raises(FailedCallError, match="ZeroDivisionError"):
        budget.within(lambda: 1 / 0)
    assert budget.within(lambda: 3) == 3


def test_a_thread_that_cannot_be_started_is_a_failed_call(monkeypatch: pytest.MonkeyPatch):
    asked = []

    def refuse(self: threading.Thread) -> None:
        asked.append(self)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(limited, "_idle", [])
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(FailedCallError, match="no thread can be started for it: can't start"):
        within(60, lambda: 3)
    assert asked


@pytest.mark.parametrize(
    ("value", "most", "too_large"),
    [
        ("x" * 11, 10, True),
        ("x" * 9, 10, False),
        (list(range(20)), 10, True),
        ({"a": ["b", {"c": "d" * 10}]}, 10, True),
        ({"a": 1}, 10, False),
        (Pair("x", [1] * 20), 10, True),
        (Pair("x", [1]), 10, False),
    ],
)
def test_values_that_are_too_large_are_found(value: object, most: int, too_large: bool):
    assert exceeds(value, most) is too_large


def test_an_endless_value_is_found_as_soon_as_it_is_too_large():
    ring: list[object] = []
    ring.append(ring)
    assert exceeds(ring, 1_000)
