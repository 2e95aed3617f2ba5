"""What benchmarks make of a stream that was changed while it ran."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.live_figures import CONTROL, back_to_normal, figures_of, ratios_of
from benchmarks.live_program import first_routing
from benchmarks.process import Run
from benchmarks.timeline import (
    SECOND_MS,
    dip,
    fetched_between,
    rows_of,
    silence,
    spans_of,
    throughput,
)
from benchmarks.trials import Trials

RATE = 1_000
SECOND = 1_000_000_000


def run_of(*ends_s, asked_s=10, done_s=12, settle_s=1, before_s=5, **more):
    """A run whose timesteps are committed at these times, each with all rows due at the one before."""
    edges = [0, *(int(at * RATE) for at in ends_s[:-1])]
    commits = [
        (a, b, int(at * SECOND)) for (a, b), at in zip(pairwise(edges), ends_s[1:], strict=True)
    ]
    return {
        "rate": RATE,
        "since_ms": 0.0,
        "commits": commits,
        "began_ms": [at * 1e3 for at in ends_s[:-1]],
        "asked_ms": asked_s * 1e3,
        "done_ms": done_s * 1e3,
        "settle_ms": settle_s * 1e3,
        "before_ms": before_s * 1e3,
        "fetched": [0] * len(commits),
        "prefetched": 0,
        "pieces": 0,
        "steps": 1,
        "bins": 2,
        "phase_ms": {"prepare": [1, 3], "synchronize": [], "update": [5]},
        **more,
    }


EVEN = [step / 2 for step in range(1, 61)]
"""A timestep every half second, for half a minute."""
STALLED = [at for at in EVEN if not 10 < at < 13]
"""The same, but for one timestep that takes three seconds."""


def test_latency_runs_from_when_a_row_was_due_to_its_commit():
    rows = rows_of(run_of(*EVEN))
    assert rows.due[:2].tolist() == [0.0, 1.0]
    assert rows.latency[0] == 1_000
    assert rows.latency[499] == 501
    assert rows.between(10_000, 13_000).max() == 1_000
    assert rows_of(run_of(*STALLED)).between(10_000, 13_000).max() == 3_500


def test_rows_that_are_missing_are_refused():
    run = run_of(*EVEN)
    del run["commits"][3]
    with pytest.raises(ValueError, match="once"):
        rows_of(run)
    with pytest.raises(ValueError, match="once"):
        rows_of({**run, "commits": []})


def test_spans_end_where_the_run_does():
    run = run_of(*EVEN)
    spans = spans_of(run)
    assert spans.as_pairs() == {
        "before": (5_000, 9_000),
        "during": (9_000, 13_000),
        "after": (13_000, 29_500),
    }
    assert spans_of(run, 4_000).settled == 14_000
    assert spans_of(run, 1e9).settled == 29_500


def test_a_stall_is_a_dip_and_a_silence():
    even, stalled = run_of(*EVEN), run_of(*STALLED)
    assert dip(even, spans_of(even)) == pytest.approx(0, abs=1e-9)
    assert silence(even, spans_of(even)) == 500
    assert dip(stalled, spans_of(stalled)) == pytest.approx(1 - 2_500 / 5_000)
    assert dip(stalled, spans_of(stalled), SECOND_MS) == pytest.approx(1 - (500 / 3) / 1_000)
    assert silence(stalled, spans_of(stalled)) == 3_000
    assert np.allclose(throughput(even, 10_000, 13_000), RATE)
    assert len(throughput(even, 10_000, 10_000)) == 1


def test_nothing_is_done_while_a_job_is_stopped():
    run = run_of(*STALLED)
    slow = STALLED.index(13) - 1
    run["began_ms"][slow] = 12_500.0
    assert dip(run, spans_of(run), SECOND_MS) == 1
    assert throughput(run, 13_000, 13_000, 1_000).tolist() == [500.0]


def test_what_was_fetched_counts_when_it_was_committed():
    run = run_of(*EVEN)
    run["fetched"] = list(range(len(run["commits"])))
    assert fetched_between(run, 0, 2_000) == 0 + 1
    assert fetched_between(run, 2_000, 2_600) == 2 + 3


def test_figures_of_one_run():
    found = figures_of(run_of(*STALLED, prefetched=3_000_000))
    assert found["max during", "ms"] == 3_500
    assert found["max before", "ms"] == 1_000
    assert found["time to finish", "s"] == 2
    assert found["fetched ahead", "MB"] == 3
    assert found["phase prepare", "ms"] == 2
    assert ("phase synchronize", "ms") not in found
    assert back_to_normal(run_of(*EVEN)) == 0
    assert 1_000 < back_to_normal(run_of(*STALLED)) < 3_000


def test_bounds_compare_with_the_same_span_without_a_change():
    def runs(name, measurement):
        return Run(variant=name, measurement=measurement, failure=None, memory={})

    trials = Trials(runs=(runs(CONTROL, run_of(*EVEN)), runs("move", run_of(*STALLED))))
    bounds = ratios_of(trials, "move")
    assert bounds["bound_max"] == pytest.approx(1.5 / 3.5)
    assert bounds["bound_dip_1s_own_mean"] == pytest.approx((500 / 3) / 1_000 / 0.9)
    assert bounds["bound_dip_own_mean"] == pytest.approx(0.5 / 0.9)
    assert bounds["bound_dip"] == pytest.approx(bounds["bound_dip_own_mean"])
    assert bounds["bound_dip_1s"] == pytest.approx(bounds["bound_dip_1s_own_mean"])
    stalled = Trials(runs=(runs(CONTROL, run_of(*STALLED)), runs("move", run_of(*STALLED))))
    assert ratios_of(stalled, "move")["bound_dip"] == pytest.approx(1 / 0.9)
    assert ratios_of(trials, "other") == {}


def test_a_quarter_moves_and_leaves_the_mirror_image():
    routing = first_routing(256)
    bins = [len(routing.bins_of(task)) for task in range(4)]
    assert bins == [80, 80, 48, 48]
    assert [bins[0] - 32, bins[1] - 32, bins[2] + 32, bins[3] + 32] == [48, 48, 80, 80]
