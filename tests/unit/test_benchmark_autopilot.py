"""The benchmark of Autopilot: what happens when, its rows, and what becomes of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from benchmarks.autopilot.benchmark import ALONE, PILOTED, SPARK, ratios
from benchmarks.autopilot.events import (
    PHASES,
    SECOND,
    PhasedAds,
    PhasedReader,
    edges_of,
    events_from,
    options_of,
)
from benchmarks.autopilot.figures import core_seconds, counts, latencies, taken_back, turns
from benchmarks.autopilot.waiting import Waiting
from benchmarks.harness import Metric
from benchmarks.registry import BENCHMARKS
from benchmarks.yahoo.query import parsed

START = 1_700_000_000 * SECOND


def parameters(**overrides: Any) -> dict[str, Any]:
    return BENCHMARKS["autopilot"].parameters(quick=True, overrides=overrides)


EDGES = edges_of(parameters(minutes=20, warmup_seconds=40))


def events(**overrides: Any) -> PhasedAds:
    return events_from(options_of(parameters(**overrides), START))


def test_phases_are_the_whole_run_whatever_its_length() -> None:
    assert sum(phase.share for phase in PHASES) == pytest.approx(1)
    assert EDGES == (40, 160, 400, 580, 760, 820, 1060, 1240)
    assert edges_of(parameters(minutes=2, warmup_seconds=0))[-1] == 120


def test_three_times_as_many_rows_come_in_the_second_phase() -> None:
    made = events(minutes=20, warmup_seconds=40, rate=100)
    ends = [made.due(START + edge * SECOND) for edge in EDGES]
    rates = np.diff(ends) / np.diff(EDGES)
    assert rates.tolist() == [100.0 * phase.load for phase in PHASES]


def test_one_campaign_is_hot_in_its_phase_only_and_rows_are_the_same_wherever_they_are_cut() -> (
    None
):
    made = events(minutes=20, warmup_seconds=40, rate=100)
    first, last = (made.due(START + EDGES[n] * SECOND) for n in (3, 4))
    hot = made.drawn(np.arange(first, last)) // 15 // 10
    calm = made.drawn(np.arange(first)) // 15 // 10
    assert (hot == 0).mean() == pytest.approx(0.6 + 0.4 / 100, abs=0.02)
    assert (calm == 0).mean() == pytest.approx(0.01, abs=0.005)
    assert sum(made.campaigns(last)) == last
    whole = made.batch(first, first + 20)
    assert whole.slice(5, 5).equals(made.batch(first + 5, first + 10))
    assert len(set(parsed(whole.column(0))["ad_id"].to_pylist())) > 1


def test_a_timestep_reads_no_more_than_its_bound_and_the_rest_is_a_backlog(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = PhasedReader(events(minutes=20, warmup_seconds=40, rate=100, most_rows=250))
    monkeypatch.setattr("time.time_ns", lambda: START + 10 * SECOND)
    offsets = [{"rows": 0}]
    while (found := reader.latestOffset(offsets[-1], ReadAllAvailable())) != offsets[-1]:
        offsets.append(found)
    assert [each["rows"] for each in offsets] == [0, 250, 500, 750, 1_000]
    assert [reader.backlog(each) for each in offsets] == [1_000, 750, 500, 250, 0]


def run_of(**fields: Any) -> dict[str, Any]:
    return {"start_ns": START, "commits": [], "executors": [], **fields}


def test_a_row_waits_until_its_timestep_is_committed() -> None:
    made = events(minutes=20, warmup_seconds=40, rate=100)
    commits = [(0, 100, START + 1_500_000_000), (100, 200, START + 4 * SECOND)]
    found = latencies(run_of(commits=commits), made)
    assert found.at_s.tolist() == [0.0, 1.0]
    assert found.worst_ms.tolist() == [1_500.0, 3_000.0]


@pytest.mark.parametrize("commits", [[], [(5, 9, START)], [(0, 5, START), (6, 9, START)]])
def test_rows_that_are_missing_are_refused(commits: list[tuple[int, int, int]]) -> None:
    with pytest.raises(ValueError, match="not every row"):
        latencies(run_of(commits=commits), events())


def test_the_time_after_an_event_does_not_count() -> None:
    at = np.arange(0.0, 30.0)
    assert np.flatnonzero(counts(at, (0, 10, 25), 4.0)).tolist() == [
        4,
        5,
        6,
        7,
        8,
        9,
        *range(14, 25),
    ]


def test_executors_are_paid_for_from_the_first_event_to_the_last() -> None:
    seen = [(START - 5 * SECOND, 2), (START + 10 * SECOND, 6), (START + 20 * SECOND, 1)]
    assert core_seconds(run_of(executors=seen), (0, 5, 30)) == 2 * 10 + 6 * 10 + 1 * 10
    assert core_seconds(run_of(executors=seen), (3, 15)) == 2 * 7 + 6 * 5


@pytest.mark.parametrize(
    ("many", "found"),
    [([2, 2, 4, 5, 5], 0), ([2, 4, 3], 1), ([4, 2, 4, 2], 2), ([2, 4, 4, 4, 2], 1)],
)
def test_up_and_down_again_is_a_turn(many: list[int], found: int) -> None:
    seen = [(START + n * SECOND, each) for n, each in enumerate(many)]
    assert turns(run_of(executors=seen), (0, 100)) == found
    assert turns(run_of(executors=seen), (0, 1, 2, 3, 4, 5)) == 0


def test_decisions_that_took_something_back_are_counted() -> None:
    assert taken_back([{"outcome": "changed"}, {"outcome": "rolled back"}]) == 1


def test_ratios_compare_with_both_others() -> None:
    told = {
        PILOTED: {
            "within the target outside of events": 95.0,
            "turns of the number of executors": 0.0,
        },
        ALONE: {"time above the target": 99.0},
        SPARK: {"time above the target": 49.0, "core-seconds": 199.0},
    }
    told[PILOTED] |= {"changes": 3.0, "time above the target": 9.0, "core-seconds": 99.0}
    metrics = [
        Metric(name=name, value=value, unit="s", variant=variant)
        for variant, of in told.items()
        for name, value in of.items()
    ]
    found = ratios(metrics)
    assert (found["bound_within"], found["bound_steady"]) == (pytest.approx(1), 1)
    assert found["time_above_the_target_left_alone"] == 10
    assert found["core-seconds_dynamic_allocation"] == 2
    assert ratios([each for each in metrics if each.variant != PILOTED]) == {}


def test_the_function_waits_longer_on_the_executor_that_a_file_names(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    place = tmp_path / "7"
    place.mkdir()
    monkeypatch.chdir(place)
    made = Waiting(seconds=0.01, slower=3.0, sign=str(tmp_path / "sign"))
    for text in (None, "7", "8"):
        if text is not None:
            (tmp_path / "sign").write_text(text)
        made.wait(10)
    assert slept == pytest.approx([0.1, 0.3, 0.1])
