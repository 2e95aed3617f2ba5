"""Calls that may not hold up a task, and values that may not be too large."""

import time
from dataclasses import dataclass

import pytest

from rechannel.kernels.tasks.limited import FailedCallError, exceeds, within


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
