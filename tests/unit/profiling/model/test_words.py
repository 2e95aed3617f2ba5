"""Figures in words."""

import pytest

from rechannel.profiling.model.words import counted, listed, percent, seconds, size


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (0, "0 s"),
        (1e-9, "1 ns"),
        (0.000_25, "250 µs"),
        (0.34, "340 ms"),
        (1, "1 s"),
        (1.254, "1.25 s"),
        (74.26, "74.3 s"),
        (119.4, "119 s"),
        (119.7, "2 min"),
        (125.4, "2 min 5 s"),
        (3_599.7, "1 h"),
        (11_520, "3 h 12 min"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d"),
        (30 * 86_400 + 5 * 3_600, "30 d 5 h"),
        (1_200 * 86_400, "1,200 d"),
    ],
)
def test_lengths_of_time(length, words):
    assert seconds(length) == words


def test_sizes_shares_and_numbers():
    assert [size(n) for n in (0, 999, 1_023, 1_536, 15 << 20, 3 << 50)] == [
        *("0 B", "999 B", "1.0 KiB", "1.5 KiB", "15 MiB", "3.0 PiB")
    ]
    assert [percent(share) for share in (0, 0.004, 0.426, 1)] == [
        "0 %",
        "below 1 %",
        "43 %",
        "100 %",
    ]
    assert [counted(1, "task"), counted(1_200, "task"), counted(2, "batch", "batches")] == [
        *("1 task", "1,200 tasks", "2 batches")
    ]
    assert listed(["a"]) == "a"
    assert listed(["a", "b"]) == "a and b"
    assert listed(list("abcdef"), 3) == "a, b, c and 3 more"
