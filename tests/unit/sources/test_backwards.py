"""Offsets that go backwards."""

from __future__ import annotations

import pytest

from rechannel.sources.backwards import went_back


@pytest.mark.parametrize(
    ("now", "before"),
    [
        ({"o": 4}, {"o": 5}),
        ({"at": [0, 1]}, {"at": [1, 1]}),
        ({"0": 9, "1": 4}, {"0": 5, "1": 5}),
        ({"topic": {"0": 9, "11": 4}}, {"topic": {"0": 5, "11": 5}}),
        ({"o": "4"}, {"o": "15"}),
        ({"file": 3, "line": 2}, {"file": 3, "line": 7}),
        ({"o": 1.5}, {"o": 2.5}),
        ({"file": "a", "line": 2}, {"file": "a", "line": 7}),
        ({"0": 4, "2": 9}, {"0": 5, "1": 7}),
        ({"t": {"0": 4}, "new": {"0": 0}}, {"t": {"0": 5}, "old": {"0": 8}}),
    ],
)
def test_what_shrank_is_behind(now, before):
    assert went_back(now, before)


@pytest.mark.parametrize(
    ("now", "before"),
    [
        ({"o": 5}, {"o": 5}),
        ({"o": 6}, {"o": 5}),
        ({"file": 4, "line": 0}, {"file": 3, "line": 7}),
        ({"file": "b", "line": 0}, {"file": "a", "line": 100}),
        ({"day": "2026-01-02", "hour": 0}, {"day": "2026-01-01", "hour": 23}),
        ({"cursor": "xyz", "remaining": 5}, {"cursor": "abc", "remaining": 9}),
        ({"at": ["b", 0]}, {"at": ["a", 7]}),
        ({"snapshot": False, "index": 0}, {"snapshot": True, "index": 7}),
        ({"o": 4, "generation": "b"}, {"o": 5}),
        ({"o": 4}, {"o": 5, "cursor": "a"}),
        ({"generation": "b", "at": {"0": 1}}, {"generation": "a", "at": {"0": 9}}),
        ({"0": 5, "1": 0}, {"0": 5}),
        ({"0": 5}, {"0": 5, "1": 7}),
        ({"lsn": "0/A"}, {"lsn": "0/F"}),
        ({"done": False}, {"done": True}),
        ({}, {"o": 5}),
        ({"o": None}, {"o": 5}),
    ],
)
def test_what_cannot_be_told_is_not(now, before):
    assert not went_back(now, before)
