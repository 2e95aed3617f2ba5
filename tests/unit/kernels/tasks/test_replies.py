"""Replies of handlers, as JSON and merged."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from rechannel.kernels.protocol.control import OperatorHandler
from rechannel.kernels.tasks.replies import Merging, by_operator, read, written


@dataclass(frozen=True, kw_only=True)
class Count:
    rows: int


class Counting(OperatorHandler):
    reply_type = Count

    def merge(self, one: Count, other: Count) -> Count:
        return Count(rows=one.rows + other.rows)


WRONG = {"rows": "many"}


def test_a_reply_comes_back_from_json():
    assert written(Counting(), Count(rows=3), 100) == {"rows": 3}
    assert read(Counting(), {"rows": 3}) == Count(rows=3)
    assert written(OperatorHandler(), WRONG, 100) == read(OperatorHandler(), WRONG) == WRONG


@pytest.mark.parametrize("wrong", [WRONG, {}, 3, None, [1]])
def test_a_reply_of_another_type_is_refused(wrong: object):
    with pytest.raises(TypeError, match="its reply is no Count: "):
        written(Counting(), wrong, 100)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_that_cannot_be_read_is_lost_and_not_the_others(place: int):
    values: list[object] = [{"rows": 1}, {"rows": 2}]
    values.insert(place, WRONG)
    merging = Merging(handler=Counting(), values=values, most=100)
    assert merging.run() == {"rows": 3}
    (error,) = merging.errors
    assert error.splitlines()[-1].startswith("TypeError: its reply is no Count")


def test_one_failure_for_each_reply_where_all_are_lost():
    merging = Merging(handler=Counting(), values=[WRONG, WRONG], most=100)
    with pytest.raises(ValueError, match="its reply is no Count"):
        merging.run()
    assert len(merging.errors) == 1


def test_replies_are_ordered_by_operator():
    assert by_operator([{"a": 1, "b": 2}, {}, {"a": 3}]) == {"a": [1, 3], "b": [2]}
