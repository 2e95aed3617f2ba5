"""The benchmark of Heron's word count: what is simulated, and what is made of a run on Spark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import ds2_heron
from benchmarks.ds2_heron_rates import COUNT, FLATMAP, LEAST, PUBLISHED, SENTENCES, SPLIT, WORDS
from benchmarks.ds2_heron_side import (
    BINS,
    EVEN,
    SPLITS,
    FlatMap,
    Sentences,
    Waiting,
    interval_for,
    words_of,
)
from benchmarks.registry import BENCHMARKS
from rechannel.model.hashing import hash_columns
from rechannel.model.routing import Routing
from tests.support.benchmarks import bench, variant
from tests.support.scaled_runs import heron_run

CHOSEN = BENCHMARKS["ds2-heron"]


def test_the_least_is_what_the_rates_say():
    assert LEAST[FLATMAP] == SENTENCES / SPLIT
    assert LEAST[COUNT] == WORDS
    assert PUBLISHED["ds2"].instances == LEAST


def test_ds2_needs_one_decision_and_its_rivals_buy_too_much():
    names = ("ds2", "dhalion", "dhalion, exact back-pressure", "dynamic-allocation")
    found = {name: ds2_heron.SIMULATED[name]() for name in names}
    assert (found["ds2"].decisions, found["ds2"].last_s) == (1, 60)
    assert found["ds2"].instances == LEAST
    # Each decision helps one operator, and the factor is at most 5: neither gets there in one.
    assert found["dhalion"].decisions >= 4
    assert 1 < found["dhalion, exact back-pressure"].over < found["dhalion"].over
    assert found["dynamic-allocation"].most > 10 * sum(LEAST.values())


def test_a_run_on_spark_is_judged_from_the_first_whole_timestep():
    found, met = ds2_heron.real(heron_run())
    assert (found.decisions, found.last_s, found.instances) == (1, 20, LEAST)
    assert met == pytest.approx(1)
    assert ds2_heron.begins_s(heron_run()) == 20
    late = heron_run(
        timesteps=[*heron_run()["timesteps"], [6, 1_048_800, 1_078_400, 1_600, 29_600.0]]
    )
    assert ds2_heron.real(late)[1] == pytest.approx(3 * 9.6 / 38.4)
    rates = ds2_heron.sentences(heron_run()).y
    assert rates == pytest.approx((8, 80, 1_600 / 9.6, 1_600 / 9.6))


@pytest.mark.parametrize("wrong", [{"decisions": []}, {"every": 7}])
def test_a_run_in_which_nothing_was_decided_has_failed(wrong):
    ds2_heron.check(variant("v"), heron_run())
    with pytest.raises(ValueError, match="decisions"):
        ds2_heron.check(variant("v"), heron_run(**wrong))


def test_variants_can_be_chosen(tmp_path: Path):
    parameters = CHOSEN.parameters(quick=True, overrides={})
    result = CHOSEN.run(parameters, bench(tmp_path, only=frozenset({"ds2"})))
    assert {each.variant for each in result.metrics} == {
        "ds2",
        *(f"{n}, published" for n in PUBLISHED),
    }
    assert result.ratios == {"bound_simulated_decisions": 1, "bound_simulated_instances": 1}


def test_every_task_of_an_even_timestep_has_the_same_rows():
    batch = Sentences(words_of(BINS))(7 * EVEN, 8 * EVEN)
    words = FlatMap(Waiting(1e12))(batch).column("word")
    assert len(words) == EVEN * WORDS
    hashes = hash_columns([words])
    for tasks in (1, LEAST[COUNT]):
        owners = Routing.even(bins=BINS, tasks=tasks).task_of(hashes)
        assert set(np.bincount(owners, minlength=tasks)) == {EVEN * WORDS // tasks}
    assert EVEN % SPLITS == 0
    assert pa.types.is_string(words.type)


def test_the_interval_makes_tasks_cost_the_wanted_share():
    of = {"interval_s": [1.0, 40.0], "fixed_share": 0.04, "scale": 0.01}
    assert interval_for(0.48, of) == pytest.approx(12)
    assert interval_for(9, of) == pytest.approx(40, abs=0.48)
    rows = interval_for(0.4321, of) * SENTENCES * 0.01
    assert rows == pytest.approx(round(rows / EVEN) * EVEN)
    assert 0.03 < 0.4321 / interval_for(0.4321, of) <= 0.04
