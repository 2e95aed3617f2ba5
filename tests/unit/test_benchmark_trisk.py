"""`trisk`: its figures from invented runs, and its application in process for a few seconds."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.harness import Variant
from benchmarks.trisk import (
    BENCHMARK,
    check,
    curve,
    exchange_metrics,
    fraud_metrics,
    phases,
    verdict,
)
from benchmarks.trisk_side import fraud, queue

ALONE = {"latency_ms": [1.0, 2.0, 9.0, 8.0, 3.0, 1.0], "changes": [], "trades": 5, "digest": "a"}
CONTROLLED = ALONE | {"latency_ms": [1.0, 2.0, 3.0, 2.0, 1.0, 1.0], "changes": [[3, "rescale"]]}


def found(**more: Any) -> dict[str, list[Any]]:
    return {"exchange_alone": [ALONE], "exchange": [CONTROLLED | more]}


def test_a_phase_is_a_third_of_the_batches():
    assert phases(ALONE) == [[1.0, 2.0], [9.0, 8.0], [3.0, 1.0]]
    assert curve("x", ALONE).x == (0.0, 0.5, 1.0, 1.5, 2.0, 2.5)


def test_the_verdict_is_the_largest_latency_at_twice_the_load():
    assert verdict(found()) == {"largest_latency": 3.0, "bound_equal_trades": 1.0}
    assert verdict(found(digest="b"))["bound_equal_trades"] == 0.0
    assert verdict({"exchange": [CONTROLLED]}) == {}


def test_figures_by_phase():
    metrics = {(m.variant, m.name): m.value for m in exchange_metrics("exchange", [CONTROLLED])}
    assert metrics["exchange, 2x", "largest"] == 3.0
    assert metrics["exchange", "changes"] == 1
    f1 = {
        m.name: m.value
        for m in fraud_metrics("fraud", {"f1": [0.9] * 20 + [0.1] * 10 + [0.7] * 10})
    }
    assert f1["F1 before drift"] == pytest.approx(0.9)
    assert f1["F1 after drift"] == pytest.approx(0.4)
    assert f1["F1 after drift, second half of a phase"] == pytest.approx(0.7)
    assert f1["minutes below 0.6"] == 10


@pytest.mark.parametrize(("name", "made"), [("exchange", ALONE), ("exchange_alone", CONTROLLED)])
def test_a_run_whose_controller_did_nothing_or_was_not_to_is_none(name, made):
    controlled = name == "exchange"
    variant = Variant(
        name=name, function="m:f", parameters={**BENCHMARK.defaults, "controlled": controlled}
    )
    with pytest.raises(ValueError, match="changes were made"):
        check(variant, made)


def test_both_applications_run_in_process():
    small = {
        "seconds": 4,
        "tasks_in_process": 1,
        "minutes": 4,
        "per_minute": 20,
        "controlled": False,
    }
    made = queue(small)
    assert made["trades"] > 0
    assert not made["changes"]
    assert len(made["latency_ms"]) == 3
    assert len(fraud(small)["f1"]) == 1
