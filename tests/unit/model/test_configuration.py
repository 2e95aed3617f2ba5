from __future__ import annotations

import json
from dataclasses import FrozenInstanceError

import pytest

from rechannel.model.codec import decode, encode
from rechannel.model.configuration import Combine, Configuration, OperatorConfiguration
from rechannel.model.routing import Routing

COUNTS = OperatorConfiguration(tasks=2, routing=Routing.even(bins=8, tasks=2), logic=3)
PARSE = OperatorConfiguration(tasks=5, combine=Combine.OFF)


def test_json_is_read_as_it_was_written():
    made = Configuration(
        version=4, operators={"counts": COUNTS, "parse": PARSE}, interval_ms=250, in_flight=3
    )
    assert decode(Configuration, json.loads(json.dumps(encode(made)))) == made
    assert decode(Configuration, encode(Configuration())) == Configuration()


@pytest.mark.parametrize(
    ("combine", "combining", "combines"),
    [
        (Combine.AUTO, True, True),
        (Combine.AUTO, False, False),
        (Combine.ON, False, True),
        (Combine.OFF, True, False),
    ],
)
def test_auto_is_what_was_measured(combine, combining, combines):
    made = OperatorConfiguration(tasks=1, combine=combine, combining=combining)
    assert made.combines is combines


def test_a_change_is_another_value():
    before = Configuration(operators={"counts": COUNTS, "parse": PARSE})
    more = OperatorConfiguration(tasks=4, routing=Routing.even(bins=8, tasks=4))
    after = before.with_operator("counts", more)
    assert (before.version, after.version) == (1, 2)
    assert before.operators["counts"] == COUNTS
    assert after.operators == {"counts": more, "parse": PARSE}


def test_nothing_can_be_changed_in_place():
    given = {"counts": COUNTS}
    made = Configuration(operators=given)
    given["parse"] = PARSE
    assert list(made.operators) == ["counts"]
    with pytest.raises(TypeError):
        made.operators["parse"] = PARSE
    with pytest.raises(FrozenInstanceError):
        made.version = 2


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: OperatorConfiguration(tasks=0), "at least one task, not 0"),
        (
            lambda: OperatorConfiguration(tasks=3, routing=Routing.even(bins=8, tasks=2)),
            "routing is for 2 tasks, but the operator has 3",
        ),
        (lambda: Configuration(interval_ms=-1), "interval_ms must be >= 0"),
        (lambda: Configuration(in_flight=0), "in_flight >= 1"),
    ],
)
def test_what_cannot_run_is_refused(make, told):
    with pytest.raises(ValueError, match=told):
        make()
