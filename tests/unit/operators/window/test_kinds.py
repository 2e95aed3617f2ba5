"""Kinds of windows: each holds what tells its own windows apart, and knows which terms it can have."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.dataflow.streams.stream import Stream
from rechannel.errors import DataflowError
from rechannel.operators.window.kinds import Count, Inherited, Session, Sliding, Tumbling

ROWS = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
SECOND = 1_000_000


def rows() -> Stream:
    return rc.read().memory(ROWS).event_time("t", delay=0)


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        (Tumbling, {"size_us", "offset_us"}),
        (Sliding, {"size_us", "every_us", "offset_us"}),
        (Session, {"gap_us"}),
        (Count, {"size", "every"}),
        (Inherited, set()),
    ],
)
def test_a_kind_has_its_own_fields_only(kind: Any, own: set[str]) -> None:
    assert {field.name for field in fields(kind)} == own


def test_sliding_windows_as_far_apart_as_they_are_long_are_tumbling() -> None:
    assert rc.windows.sliding(2_000, 2_000) == rc.windows.tumbling(2_000)
    assert rc.windows.sliding(2_000, 1_000) == Sliding(size_us=2 * SECOND, every_us=SECOND)


def test_windows_are_anchored_where_they_follow_each_other() -> None:
    assert rc.windows.tumbling(2_000, 1_000).anchor_us == SECOND
    assert rc.windows.sliding(2_000, 1_000, 1_000).anchor_us is None


def test_fingerprints_name_windows_as_journals_do() -> None:
    text = "Windows(size_us=2000000, every_us=1000000, offset_us=0, assigned=False, gap_us=None, counted=None)"
    assert rc.windows.sliding(2_000, 1_000).stored_as == text


@pytest.mark.parametrize(
    ("window", "said", "wrong"),
    [
        (rc.windows.counting(3), {"lateness": 1_000}, "lateness"),
        (rc.windows.counting(3), {"emit": rc.every(1_000)}, "rc.every"),
        (rc.windows.same_window(), {"time": "processing"}, "processing time"),
        (rc.windows.same_window(), {}, "do not come out of windows"),
        (rc.windows.tumbling(1_000), {"time": "wall"}, "'wall'"),
        (
            rc.windows.sliding(2_000, 1_000),
            {"time": "processing", "emit": rc.every(1_000)},
            "rc.every",
        ),
        (rc.windows.sessions(1_000), {"emit": "sometimes"}, "sometimes"),
    ],
)
def test_a_kind_refuses_terms_that_it_cannot_have(
    window: Any, said: dict[str, Any], wrong: str
) -> None:
    with pytest.raises(DataflowError, match=wrong):
        rows().key_by("k").window(window, **said)


@pytest.mark.parametrize("window", [rc.windows.sessions(1_000), rc.windows.counting(3)])
def test_ranks_are_of_windows_of_one_length(window: Any) -> None:
    with pytest.raises(DataflowError, match="windows are of one length"):
        rows().key_by("k").window(window).top(1, by="v")


def test_sessions_need_a_key() -> None:
    with pytest.raises(DataflowError, match="sessions need a key"):
        rows().window(rc.windows.sessions(1_000))
