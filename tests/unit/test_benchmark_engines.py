"""Engines that are not Spark, and none at all: what they run, and what is made of their times."""

import polars as pl
import pytest

from benchmarks.comparison import MEAN
from benchmarks.harness import Metric, UnknownNameError
from benchmarks.nexmark.benchmark import BENCHMARK, OTHERS, others, overall, per_core
from benchmarks.peers import floor
from benchmarks.peers.bytewax.nexmark import measurement

TOLD = [
    {"read": [10.0, 12.0, 15.0], "end": 18.0, "late": 0},
    {"read": [10.5, 11.5, 15.5], "end": 19.0, "late": 0},
]
PARAMETERS = {"query": "q3", "events": 500_000}


def test_a_batch_lasts_until_the_next_one_is_begun_and_the_last_one_to_the_end():
    found = measurement(TOLD, PARAMETERS)
    assert found["seconds"] == [1.5, 3.5, 4.0]
    # People and auctions: 4 of 50 events.
    assert found["rows"] == [40_000] * 3


def test_a_run_that_lost_rows_has_failed():
    with pytest.raises(RuntimeError, match="2 rows came when their windows were gone"):
        measurement([TOLD[0], {**TOLD[1], "late": 2}], PARAMETERS)


def test_engines_run_the_queries_that_they_have_and_only_if_asked():
    parameters = BENCHMARK.parameters(quick=False, overrides={})
    assert others({**parameters, "query": "q3"}) == []
    asked = {**parameters, "others": ["bytewax"]}
    assert [one.name for one in others({**asked, "query": "q3"})] == ["q3_bytewax"]
    assert others({**asked, "query": "q4"}) == []
    assert set(OTHERS["bytewax"]) < set(parameters["queries"])
    with pytest.raises(UnknownNameError, match="no engine 'flank'; known here: bytewax"):
        others({**parameters, "others": ["flank"], "query": "q3"})


def test_engines_are_no_part_of_what_is_promised():
    spark = {"q0_spark": 1.0, "q3_hdfs": 4.0, "q3_rocksdb": 9.0, "q8_hdfs": 9.0}
    assert overall(spark) == {"stateful_geometric_mean": pytest.approx(6.0), "worst": 1.0}
    beside = overall({**spark, "q0_bytewax": 0.5, "q3_bytewax": 2.0})
    assert beside == {**overall(spark), "bytewax_geometric_mean": pytest.approx(1.0)}


def test_events_per_core_are_those_of_the_kinds_that_a_query_reads():
    means = [Metric(name=MEAN, value=2.0, unit="s", variant=name) for name in ("q3", "q1_spark")]
    found = per_core(means, {"events": 500_000, "cores": 2})
    assert {m.variant: m.value for m in found} == {"q3": 10_000.0, "q1_spark": 115_000.0}


def test_the_floor_counts_and_sums_as_polars_does() -> None:
    totals = floor.Totals()
    batches = [
        pl.DataFrame({"key": keys, "value": values})
        for keys, values in (([5, 1, 5], [1, 2, 3]), ([9, 0, 1], [4, 5, 6]), ([5], [7]))
    ]
    for number, batch in enumerate(batches):
        changed = totals.add(batch)
        so_far = pl.concat(batches[: number + 1])
        expected = so_far.group_by("key").agg(
            count=pl.len().cast(pl.Int64), total=pl.col("value").sum()
        )
        of_batch = expected.filter(pl.col("key").is_in(batch["key"].implode())).sort("key")
        assert changed.equals(of_batch)
    assert totals.keys.tolist() == [0, 1, 5, 9]
