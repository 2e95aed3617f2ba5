"""Spark's figures of a task that ran several tasks of an operator."""

import pytest

from rechannel.telemetry.bundles import shared_out
from rechannel.telemetry.task_finished import SparkMetrics

WHOLE = SparkMetrics(
    stage=1,
    partition=0,
    executor="1",
    host="h",
    launch_ms=1_000,
    finish_ms=1_050,
    run_ms=42.0,
    cpu_ms=9.0,
    gc_ms=2.0,
    deserialise_ms=3.0,
    result_serialise_ms=1.0,
    shuffle_wait_ms=4.0,
    shuffle_write_ms=0.5,
    shuffle_read_bytes=700,
    shuffle_write_bytes=900,
)
SPANS = [(1_010.0, 1_020.0), (1_020.0, 1_031.0), (1_031.0, 1_045.0)]
SUMMED = (
    "run_ms",
    "cpu_ms",
    "gc_ms",
    "deserialise_ms",
    "result_serialise_ms",
    "shuffle_wait_ms",
    "shuffle_write_ms",
    "shuffle_read_bytes",
    "shuffle_write_bytes",
)


def test_one_task_has_it_all():
    assert shared_out(WHOLE, SPANS[:1]) == [WHOLE]


@pytest.mark.parametrize("ahead_ms", [0.0, -90_000.0, 5.0, 90_000.0])
def test_shares_follow_each_other_and_sum_to_the_whole(ahead_ms):
    """Whatever the worker's clock says."""
    spans = [(began + ahead_ms, ended + ahead_ms) for began, ended in SPANS]
    made = shared_out(WHOLE, spans)
    edges = [made[0].launch_ms, *(share.finish_ms for share in made)]
    assert edges == sorted(edges)
    assert (edges[0], edges[-1]) == (1_000, 1_050)
    assert [share.launch_ms for share in made] == edges[:-1]
    for name in SUMMED:
        assert sum(getattr(share, name) for share in made) == pytest.approx(getattr(WHOLE, name))
    assert {(share.stage, share.partition, share.executor, share.host) for share in made} == {
        (1, 0, "1", "h")
    }


def test_what_spark_needs_is_with_the_first_and_the_last():
    first, second, third = shared_out(WHOLE, SPANS)
    assert [first.finish_ms, second.finish_ms] == [1_020, 1_031]
    assert [share.run_ms for share in (first, second, third)] == [17.0, 11.0, 14.0]
    assert (first.deserialise_ms, first.shuffle_read_bytes) == (3.0, 700)
    assert (third.result_serialise_ms, third.shuffle_write_bytes) == (1.0, 900)


def test_tasks_come_in_any_order():
    shuffled = [SPANS[2], SPANS[0], SPANS[1]]
    made = shared_out(WHOLE, shuffled)
    assert sorted(made, key=lambda share: share.launch_ms) == shared_out(WHOLE, SPANS)
    assert made[0].finish_ms == 1_050


def test_a_task_that_took_no_time_runs_for_none():
    made = shared_out(WHOLE, [(1_010.0, 1_020.0), (1_020.0, 1_020.0), (1_020.0, 1_045.0)])
    assert made[1].launch_ms == made[1].finish_ms
    assert made[1].run_ms == 0.0
