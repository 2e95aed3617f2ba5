"""Four real streams: the advice from their logs, and what a second run measured that followed it."""

import json

import pytest

import rechannel as rc
from tests.unit.scaling.files.spark.record import MEASURED, example

CASES = json.loads(MEASURED.read_text(encoding="utf-8"))
INTERVAL_S = 4.0


def advised(case):
    (query,) = rc.scaling_advice(example(case), interval=INTERVAL_S).queries
    return query


@pytest.mark.parametrize("case", CASES)
def test_the_advised_batch_took_what_was_predicted(case):
    told, measured = advised(case).advised, CASES[case]
    assert (told.cores, told.partitions) == (measured["cores"], measured["partitions"])
    assert told.batch_ms == pytest.approx(measured["measured_ms"], rel=0.2)
    assert told.low_ms * 0.9 <= measured["measured_ms"] <= told.high_ms * 1.1
    assert told.keeps


@pytest.mark.parametrize(
    ("case", "before", "keeps"),
    [
        ("too-few", (1, 1), False),
        ("right", (2, 2), True),
        ("too-many", (2, 100), False),
        ("waiting", (2, 2), False),
    ],
)
def test_what_there_was_is_judged(case, before, keeps):
    query = advised(case)
    assert (query.now.cores, query.now.partitions) == before
    assert query.now.keeps is keeps
    assert query.now.batch_ms == pytest.approx(query.measured_ms, rel=0.1)


def test_the_second_run_contradicts_other_numbers():
    """Of the stream of 100 tasks: all of their time together, and the fixed part alone, are far off."""
    query, measured = advised("too-many"), CASES["too-many"]["measured_ms"]
    work = sum(each.tasks_ms for each in query.stages) + query.driver_ms
    assert work > 4 * measured
    _, count = query.stages
    assert query.driver_ms + count.fixed_high_ms < 0.5 * measured


def test_the_rate_is_that_of_the_source():
    assert advised("too-few").rate == pytest.approx(20_000, rel=0.02)
    assert advised("too-many").rate == pytest.approx(2_500, rel=0.02)
