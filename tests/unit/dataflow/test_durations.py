"""Lengths of time as users write them."""

from datetime import timedelta

import pytest

from rechannel.dataflow.graph.durations import microseconds
from rechannel.errors import DataflowError


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (timedelta(seconds=2), 2_000_000),
        (3, 3_000),
        ("10 seconds", 10_000_000),
        ("1 second", 1_000_000),
        ("250 milliseconds", 250_000),
        ("7 microseconds", 7),
        ("1 hour 30 minutes", 5_400_000_000),
        ("2days", 172_800_000_000),
        (" 1 week ", 604_800_000_000),
        ("200 ms", 200_000),
        ("1.5 s", 1_500_000),
        ("0.1 seconds", 100_000),
        ("2min", 120_000_000),
        ("1h 30min", 5_400_000_000),
        ("30 us", 30),
    ],
)
def test_lengths_are_microseconds(given, expected):
    assert microseconds(given, "size") == expected


@pytest.mark.parametrize(
    "given",
    ["", "ten seconds", "10", "10 parsecs", "10 seconds ago", "5 ss", "5 m", "-1 second",
     0, -5, 1.5, True, None, timedelta(0)],
)  # fmt: skip
def test_what_is_no_length_is_refused(given):
    with pytest.raises(
        DataflowError, match="size must be a timedelta, a string such as '10 seconds'"
    ):
        microseconds(given, "size")


def test_nothing_can_be_a_length_where_that_makes_sense():
    assert microseconds(0, "delay", least=0) == 0
    assert microseconds(timedelta(0), "delay", least=0) == 0
    with pytest.raises(DataflowError):
        microseconds(-1, "delay", least=0)
