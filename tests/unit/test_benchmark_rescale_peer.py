"""What `rescale-peer` makes of when rows were due and came out."""

import numpy as np
import pytest

from benchmarks.harness import Picture, Series, Variant
from benchmarks.outputs import (
    latencies,
    rows_per_second,
    sampled,
    silences,
    spans_of,
    worst_latency,
)
from benchmarks.peers.flink.rescale import counting, first_outputs, read_samples
from benchmarks.picture import draw
from benchmarks.process import Run
from benchmarks.rescale_peer import check, figures, picture_of, ratios_of, versions_of
from benchmarks.trials import Trials

PARAMETERS = {"before_seconds": 10, "during_seconds": 5, "after_seconds": 5, "tasks": [2, 4]}


def run_of(late_ms=2.0, stall_s=0.0, **more):
    """20,000 rows per second for half a minute, with a stall that begins at 20 s, when a change is asked for."""
    due = np.arange(0, 30_000.0)
    out = np.where((due >= 20_000) & (due < 20_000 + stall_s * 1e3), 20_000 + stall_s * 1e3, due)
    return {
        "due_ms": due.tolist(),
        "out_ms": (out + late_ms).tolist(),
        "every": 20,
        "rate": 20_000,
        "asked_ms": 20_000.0,
        "done_ms": 21_000.0,
        "end_ms": 30_000.0,
        "repeated": 0,
        "version": "1.0",
        **more,
    }


def trials_of(**runs):
    """One run of each variant."""
    return Trials(
        runs=tuple(
            Run(variant=name, measurement=run, failure=None, memory={})
            for name, run in runs.items()
        )
    )


def test_a_thousand_rows_per_second_are_sampled_and_every_row_below_that():
    assert (sampled(20_000), sampled(1_000), sampled(10)) == (20, 1, 1)


def test_latency_is_that_of_the_rows_due_in_a_span():
    run = run_of(stall_s=3)
    assert latencies(run, (10_000, 20_000)).max() == 2
    assert latencies(run, (20_000, 25_000)).max() == 3_002
    at, worst = worst_latency(run, (19_900, 20_200), 100)
    assert at.tolist() == [19_900, 20_000, 20_100]
    assert worst.tolist() == [2, 3_002, 2_902]


def test_rows_that_never_came_out_are_refused():
    run = run_of()
    del run["due_ms"][21_000:21_010], run["out_ms"][21_000:21_010]
    variant = Variant(name="flink", function="a:b", parameters=PARAMETERS)
    check(variant, run_of())
    with pytest.raises(ValueError, match="10 of the rows"):
        check(variant, run)


def test_a_silence_counts_where_it_ends():
    run = run_of(stall_s=3)
    assert silences(run, (10_000, 20_000)).max() == 1
    assert silences(run, (20_000, 25_000)).max() == 3_001
    assert silences(run, (20_000, 21_000)).max() == 1
    assert silences(run, (24_000, 25_000)).max() == 1


def test_rows_that_wait_when_the_change_is_asked_for_are_during():
    spans = spans_of(run_of(late_ms=20), before_ms=10_000, during_ms=5_000)
    assert spans["before"] == (10_000, 19_980)
    assert spans["during"] == (19_980, 25_000)
    assert spans["after"] == (25_000, 30_000)


def test_rows_per_second_show_the_silence_and_the_catching_up():
    rows = rows_per_second(run_of(stall_s=3), (10_000, 30_000))
    assert rows[0] == 20_000
    assert rows.min() == 0
    assert rows.max() > 60_000


def test_figures_and_ratios_compare_the_peer_with_us():
    trials = trials_of(rechannel=run_of(late_ms=20), flink=run_of(stall_s=3, repeated=7))
    found = {(m.variant, m.name): m.value for m in figures(trials, PARAMETERS)}
    assert found["flink", "longest without output during"] == 3.001
    assert found["flink", "without output beyond the usual"] == 3.0
    assert found["rechannel", "without output beyond the usual"] == 0.0
    assert found["flink", "put out again"] == 7
    assert found["flink", "change took"] == 1.0
    ratios = ratios_of(figures(trials, PARAMETERS))
    assert ratios["silence"] == pytest.approx(3_001)
    assert ratios["p50_before"] == pytest.approx(0.1)
    assert versions_of(trials) == {"rechannel": "1.0", "flink": "1.0"}


def test_without_the_peer_there_are_figures_but_no_ratios():
    assert ratios_of(figures(trials_of(rechannel=run_of()), PARAMETERS)) == {}


def test_the_picture_has_latency_above_and_rows_below(tmp_path):
    picture = picture_of(trials_of(rechannel=run_of(), flink=run_of(stall_s=3)), PARAMETERS)
    labels = [series.label for series in picture.series]
    assert labels[1] == "flink (3.00 s without output beyond the usual)"
    assert labels[2] == "change asked for"
    assert [series.label for series in picture.below.series][:2] == ["rechannel", "flink"]
    draw(picture, tmp_path / "below.png")
    draw(Picture(title="", x_label="", y_label="", series=()), tmp_path / "empty.png")
    one = Series(label="one", x=(1.0,), y=(1.0,))
    draw(Picture(title="", x_label="", y_label="", series=(one,)), tmp_path / "one.png")
    assert len(list(tmp_path.iterdir())) == 3


def test_a_row_that_came_out_again_counts_from_the_first_time(tmp_path):
    pairs = np.array([[0, 5], [20, 6], [40, 7]], ">i8")
    (tmp_path / "a.bin").write_bytes(pairs.tobytes() + b"torn")
    (tmp_path / "b.bin").write_bytes(np.array([[20, 9], [60, 10]], ">i8").tobytes())
    rows, first, again = first_outputs(read_samples(tmp_path))
    assert rows.tolist() == [0, 20, 40, 60]
    assert first.tolist() == [5, 6, 7, 10]
    assert again == 1


def test_the_count_is_the_vertex_with_the_aggregate():
    vertices = [
        {"id": "a", "name": "Source: numbers -> Calc"},
        {"id": "b", "name": "GroupAggregate -> Sink"},
    ]
    assert counting({"vertices": vertices})["id"] == "b"
