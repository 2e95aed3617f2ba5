"""`skew-join`: its rows, and its figures from an invented run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.harness import Variant
from benchmarks.skew_join import (
    BENCHMARK,
    check,
    curves,
    full_metrics,
    latency_ratio,
    load_metrics,
    throughput_gain,
)
from benchmarks.skew_join_rows import HOT, KEPT, OF, Judged, Market, kept
from benchmarks.skew_join_side import figures, latencies

MARKET = Market(products=20, share=50, orders_per_second=1_000, quotes_per_second=100, seconds=10)
VARIANT = Variant(name="hot_50", function="a:b", parameters=BENCHMARK.defaults)


def test_one_product_has_its_share_of_the_orders_and_no_more_of_the_quotes():
    orders, quotes = MARKET.orders(0, 20_000), MARKET.quotes(0, 20_000)
    products = orders.column("product").to_numpy()
    assert np.mean(products == HOT) == pytest.approx(0.5, abs=0.02)
    others = np.bincount(products)[1:]
    assert others.min() > 0.7 * others.mean()
    assert np.bincount(quotes.column("product").to_numpy()).tolist() == [1_000] * 20


@pytest.mark.parametrize("kind", ["orders", "quotes"])
def test_rows_depend_on_their_number_alone(kind):
    rows = getattr(MARKET, kind)
    whole = pa.Table.from_batches([rows(0, 50), rows(50, 90)]).combine_chunks()
    assert whole.to_batches() == [rows(0, 90)]
    assert rows(3, 3).num_rows == 0


def test_an_order_meets_as_many_quotes_as_it_says():
    assert MARKET.quotes_per_order == 50


def test_few_pairs_are_kept():
    pairs = pa.record_batch(
        {"order": [1, 2, 3], "quote": [4, 5, 6], "amount": [OF, 1, 1], "price": [7, KEPT, 0]}
    )
    assert kept(pairs).to_pydict() == {"order": [1, 3], "quote": [4, 6]}
    assert Judged(us_per_pair=0)(pairs) == kept(pairs)


def timestep(number: int, slowest: float) -> Any:
    ms = {"process": 60.0, "send": 40.0, "wait": 70.0}
    task = SimpleNamespace(ms={"process": slowest, "wait": 99.0})
    join = SimpleNamespace(slowest_task=task, ms=ms, rows_in=9)
    read = {"start": {"rows": 100 * number}, "end": {"rows": 100 * number + 100}}
    return SimpleNamespace(
        committed_ms=1_000 * number + 500,
        duration_ms=300.0,
        operators={"priced": join},
        sources={"orders": read},
    )


def test_figures_of_a_turn():
    found = figures([timestep(1, 80.0), timestep(2, 30.0), timestep(3, 30.0)])
    assert found == {
        "rows_per_second": 100.0,
        "duration_ms": [300.0] * 3,
        "busiest_task": [0.8, 0.3, 0.3],
    }


def test_the_latency_of_an_order_runs_from_when_it_was_due():
    found = latencies([timestep(1, 1.0)], since_ms=0, rate=100)
    assert len(found) == 20
    assert found[0] == pytest.approx(1_500 - 1_025)
    assert found[-1] == pytest.approx(1_500 - 1_975)


def turn(*, spread: bool, rate: float, latency: float) -> dict[str, Any]:
    return {
        "spread": spread,
        "timesteps_to_change": 9,
        "rows_per_second": rate,
        "duration_ms": [100.0],
        "busiest_task": [0.3 if spread else 0.8],
        "latencies": [latency, latency],
    }


def made(**phase: Any) -> dict[str, Any]:
    turns = [
        turn(spread=spread, rate=rate, latency=latency)
        for spread, rate, latency in (
            (False, 100, 900),
            (True, 150, 300),
            (False, 50, 80),
            (True, 60, 40),
        )
    ]
    found = {"turns": turns, "pairs": 5, "missing": 0, "surplus": 0, **phase}
    return {"quotes_per_order": 50.0, "full": found, "loads": {"70": found}}


def test_gains_are_those_of_pairs_of_turns():
    turns = made()["full"]["turns"]
    assert throughput_gain(turns) == pytest.approx((1.5 + 1.2) / 2)
    assert latency_ratio(turns, 50) == pytest.approx((3.0 + 2.0) / 2)
    metrics = {(m.variant, m.name): m.value for m in full_metrics("hot_50", made())}
    assert metrics["hot_50", "throughput, Chi +26"] == pytest.approx(35)
    assert metrics["hot_50", "pairs compared"] == 10
    assert metrics["hot_50, with", "busiest task"] == pytest.approx(30)
    metrics = {(m.variant, m.name): m.value for m in load_metrics("hot_50, 70 % load", turns)}
    assert metrics["hot_50, 70 % load", "latency p50, Chi -61"] == pytest.approx(-60)
    assert [s.y for s in curves("hot_50", turns)] == [(100, 50), (150, 60)]


def test_a_run_with_other_pairs_than_a_batch_is_refused():
    check(VARIANT, made())
    for wrong in ({"missing": 1}, {"surplus": 1}, {"pairs": 0}):
        with pytest.raises(ValueError, match="pairs of the batch"):
            check(VARIANT, made(**wrong))
    with pytest.raises(ValueError, match="a turn has no timesteps"):
        check(VARIANT, made(turns=[{"duration_ms": [], "busiest_task": []}]))
