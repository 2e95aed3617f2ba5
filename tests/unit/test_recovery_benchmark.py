"""What `benchmarks.recovery` makes of a run. Times by hand."""

from __future__ import annotations

import pytest

from benchmarks.recovery import BENCHMARK, Recovery, variants_of
from tests.unit.test_benchmark_comparisons import TINY, failed_run

PARAMETERS = BENCHMARK.parameters(quick=False, overrides=TINY["recovery"])


def test_a_fault_is_told_in_seconds():
    found = Recovery.of(failed_run(), PARAMETERS)
    assert (found.before, found.after) == (0.5, 0.5)
    assert found.known == pytest.approx(2.9)
    assert (found.silence, found.usual) == (4.0, 1.0)
    assert found.at_failure == pytest.approx(1.0)
    assert found.back == 1


def test_a_loss_that_spark_never_knew_of():
    found = Recovery.of({**failed_run(), "known_ns": None}, PARAMETERS)
    assert found.known is None
    assert found.at_failure == pytest.approx(3.9)
    assert found.back == 1


def test_a_run_without_a_batch_before_the_fault_is_refused():
    with pytest.raises(ValueError, match="no batch before the fault"):
        Recovery.of({**failed_run(), "failed_ns": 400_000_000}, PARAMETERS)


def test_only_a_slow_host_is_met_without_copies_too():
    names = [variant.name for variant in variants_of(PARAMETERS)]
    assert "words, slow, no copies, rechannel" in names
    assert len(names) == len(set(names)) == 2 * 2 * (3 + 2)
