"""Every benchmark with invented measurements: its ratios, figures and goals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import comparison, trials
from benchmarks.big_timestep import Truth
from benchmarks.comparison import Ratio
from benchmarks.ds2_heron import SPARK
from benchmarks.ds2_loads import LOADS
from benchmarks.harness import (
    Metric,
    Variant,
)
from benchmarks.process import Run
from benchmarks.registry import BENCHMARKS
from tests.support.benchmarks import bench, failed, stepped_run, succeeded
from tests.support.scaled_runs import (
    advised_run,
    flown,
    heron_run,
    measured,
    recorded_run,
    word_count,
)

SECONDS = {
    "rechannel": 1.0,
    "floor": 0.5,
    "hdfs": 5.0,
    "rocksdb": 9.0,
    "rechannel_small": 0.5,
    "rechannel_small_inline": 0.25,
    "floor_small": 0.4,
    "hdfs_small": 2.0,
    "rocksdb_small": 1.0,
    "rechannel_per_key": 2.0,
    "rechannel_process": 2.5,
    "rechannel_process_batches": 1.25,
    "rechannel_vectorised": 1.0,
    "applyInPandasWithState": 90.0,
    "transformWithState": 50.0,
    "keys_1m": 1.0,
    "keys_10m": 1.0,
    "keys_100m": 1.6,
    "rechannel_1": 3.0,
    "rechannel_2": 2.0,
    "hdfs_1": 6.0,
    "hdfs_2": 3.0,
    "in_flight_1": 1.5,
    "in_flight_2": 1.0,
    "telemetry_off": 1.0,
    "telemetry_on": 1.02,
}
LARGE_AND_SMALL = {
    "large": {"rows": 20, "keys": 5},
    "small": {"rows": 10, "keys": 2, "inline_rows": 10},
}
PEER_BATCHES = {"rows": 20, "keys": 5, "peer_batches": 6, "peer_warmup": 2}


@pytest.mark.parametrize(
    ("name", "overrides", "ratios"),
    [
        (
            "keyed-state",
            {"cases": LARGE_AND_SMALL},
            {
                "hdfs": 5.0,
                "rocksdb": 9.0,
                "bound_floor": 0.75,
                "hdfs_small": 4.0,
                "rocksdb_small": 2.0,
                "bound_floor_small": 1.2,
                "hdfs_small_inline": 8.0,
                "rocksdb_small_inline": 4.0,
                "bound_floor_small_inline": 2.4,
            },
        ),
        (
            "python-state",
            {"cases": {"large": PEER_BATCHES}},
            {
                "applyInPandasWithState_per_key": 45.0,
                "applyInPandasWithState_vectorised": 90.0,
                "transformWithState_per_key": 25.0,
                "transformWithState_vectorised": 50.0,
                "track_over_process": 0.8,
                "track_over_process_batches": 0.8,
            },
        ),
        (
            "state-growth",
            {"sizes": [1_000_000, 100_000_000, 10_000_000], "rows": 10},
            {"bound_10m_vs_1m": 2.0, "bound_100m_vs_1m": 1.25, "bound_slowest": 1.5},
        ),
        (
            "scale",
            {"cpus": [1, 2], "stores": ["hdfs"], "rows": 10},
            {"speedup_2_cpus": 1.5},
        ),
        ("pipelining", {"in_flight": [2], "rows": 10}, {"in_flight_2_vs_1": 1.5}),
        ("telemetry-overhead", {"rows": 10}, {"bound_5_percent": 1.05 / 1.02}),
    ],
)
def test_ratios_of_batch_benchmarks(
    name: str,
    overrides: dict[str, Any],
    ratios: dict[str, float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[Variant] = []

    def fake(v: Variant, directory: Path, **_: Any) -> Run:
        ran.append(v)
        own = SECONDS[v.name]
        steady = v.parameters["batches"] - v.parameters["warmup"] - 1
        # The warm-up is absurd, and one batch takes twice as long as the others.
        seconds = [1e6] * v.parameters["warmup"] + [2 * own] + [own] * steady
        files = list(Path(v.parameters["input"]).iterdir())
        assert len(files) >= v.parameters["batches"] * v.parameters["files"]
        return succeeded(v.name, {"seconds": seconds, "rows": [10] * len(seconds)})

    monkeypatch.setattr(trials, "run_variant", fake)
    chosen = BENCHMARKS[name]
    parameters = chosen.parameters(quick=True, overrides={**overrides, "batches": 9})
    result = chosen.run(parameters, bench(tmp_path))
    assert dict(result.ratios) == pytest.approx(ratios)
    assert {v.name for v in ran} == {series.label for series in result.picture.series}
    assert set(result.parameters) >= set(chosen.defaults)
    assert all(v.parameters["durability"] == "process" for v in ran)
    slowest = {m.variant: m.value for m in result.metrics if m.name == comparison.SLOWEST}
    assert slowest == {v.name: 2 * SECONDS[v.name] for v in ran}
    spread = {m.name: m.value for m in result.metrics if " by round, " in m.name}
    for told, value in spread.items():
        assert value == pytest.approx(ratios[told.partition(" by round")[0]])
    assert bool(spread) == bool(set(ratios) - {"bound_slowest"})


def test_scale_pins_and_speeds_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: dict[str, Variant] = {}

    def fake(v: Variant, directory: Path, **_: Any) -> Run:
        ran[v.name] = v
        batches = v.parameters["batches"]
        return succeeded(v.name, {"seconds": [SECONDS[v.name]] * batches, "rows": [1] * batches})

    monkeypatch.setattr(trials, "run_variant", fake)
    monkeypatch.setattr("benchmarks.scale.available_cpus", lambda: (4, 7))
    scale = BENCHMARKS["scale"]
    parameters = scale.parameters(quick=True, overrides={"rows": 10, "stores": ["hdfs"]})
    result = scale.run(parameters, bench(tmp_path))
    assert result.parameters["cpus"] == [1, 2]
    assert {name: v.cpus for name, v in ran.items()} == {
        "rechannel_1": (4,),
        "hdfs_1": (4,),
        "rechannel_2": (4, 7),
        "hdfs_2": (4, 7),
    }
    assert {name: (v.parameters["cores"], v.parameters["tasks"]) for name, v in ran.items()} == {
        "rechannel_1": (1, 2),
        "hdfs_1": (1, 2),
        "rechannel_2": (2, 2),
        "hdfs_2": (2, 2),
    }
    speedups = {m.variant: m.value for m in result.metrics if m.name == "speed-up over 1 CPU"}
    assert speedups == {"rechannel_1": 1.0, "hdfs_1": 1.0, "rechannel_2": 1.5, "hdfs_2": 2.0}


def latency_run(delay_ms: int) -> dict[str, Any]:
    """One batch per second at 10 rows per second, committed `delay_ms` after it is complete."""
    commits = [(i * 10, i * 10 + 10, (i + 1) * 10**9 + delay_ms * 10**6) for i in range(20)]
    return {"start_ns": 0, "commits": commits, "phases": {"plan": [1.0, 5.0, 3.0], "none": []}}


def test_latency_compares_rows_created_after_the_warm_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays = {"rechannel": 0, "structured_streaming": 1_100}
    monkeypatch.setattr(
        trials, "run_variant", lambda v, d, **_: succeeded(v.name, latency_run(delays[v.name]))
    )
    latency = BENCHMARKS["latency"]
    overrides = {"rate": 10, "warmup_seconds": 5, "seconds": 10}
    result = latency.run(latency.parameters(quick=True, overrides=overrides), bench(tmp_path))
    figures = {(m.name, m.variant): m.value for m in result.metrics}
    assert figures["p50", "rechannel"] == pytest.approx(550)
    assert figures["max", "structured_streaming"] == pytest.approx(2_100)
    assert figures["phase plan", "rechannel"] == 3.0
    assert result.ratios["p50"] == pytest.approx(3.0)
    assert result.ratios["p50_third"] == pytest.approx(1.0)
    assert set(result.ratios) == {"p50_third", "p50", "p95", "p99"}


def test_ratios_of_failed_variants_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fake(v: Variant, directory: Path, **_: Any) -> Run:
        batches = v.parameters["batches"]
        good = succeeded(v.name, {"seconds": [1.0] * batches, "rows": [10] * batches})
        return failed(v.name) if v.name == "hdfs" else good

    monkeypatch.setattr(trials, "run_variant", fake)
    keyed = BENCHMARKS["keyed-state"]
    parameters = keyed.parameters(quick=True, overrides={"cases": LARGE_AND_SMALL})
    result = keyed.run(parameters, bench(tmp_path))
    assert set(result.ratios) == {
        *("rocksdb", "hdfs_small", "rocksdb_small", "hdfs_small_inline", "rocksdb_small_inline"),
        *("bound_floor", "bound_floor_small", "bound_floor_small_inline"),
    }
    assert [failure.variant for failure in result.failures] == ["hdfs"]
    assert "hdfs" not in {metric.variant for metric in result.metrics}


def test_ratios_carry_their_factor_and_say_of_what_they_are() -> None:
    figures = {
        comparison.MEDIAN: {"a": 3.0, "b": 4.0},
        comparison.MEAN: {"a": 8.0, "b": 2.0},
    }
    metrics = [
        Metric(name=name, value=value, unit="s", variant=variant)
        for name, of in figures.items()
        for variant, value in of.items()
    ]
    ratios = [
        Ratio(name="bound", over="a", under="b", factor=2.0),
        Ratio(name="overlapping", over="a", under="b", of=comparison.MEAN),
    ]
    assert comparison.ratios_of(metrics, ratios) == {"bound": 1.5, "overlapping": 4.0}


def test_overall_figures_are_of_the_medians_of_rounds_and_their_interval_is_told() -> None:
    def rounds(name: str, *seconds: float) -> list[Run]:
        return [succeeded(name, {"seconds": [9.0, s, s]}) for s in seconds]

    runs = (*rounds("slow", 2.0, 6.0, 30.0), *rounds("fast", 1.0, 2.0, 3.0))
    ratio = Ratio(name="r", over="slow", under="fast", of=comparison.MEAN)
    found = trials.Trials(runs=runs)
    each = comparison.by_round(ratio, found, {"slow": 1, "fast": 1})
    assert each == [2.0, 3.0, 10.0]

    def overall(ratios: comparison.Ratios) -> comparison.Ratios:
        return {"twice": 2 * ratios["r"]}

    assert comparison.settled({"r": each, "s": []}, overall) == {"r": 3.0, "twice": 6.0}
    told = {m.name: m.value for m in comparison.overall_intervals({"r": each, "s": []}, overall)}
    assert told == {
        "twice by round, least": 4.0,
        "twice by round, median": 6.0,
        "twice by round, most": 20.0,
    }
    assert comparison.by_round(ratio, trials.Trials(runs=(*runs, failed("slow"))), {}) == []


def test_the_latency_of_a_timestep_is_a_figure_of_its_own() -> None:
    runs = [{"latencies": [9.0, 2.0, 4.0]}, {"latencies": [9.0, 6.0, 8.0]}, {}]
    found = {m.name: m.value for m in comparison.latency_metrics("a", runs, 1)}
    assert found == {
        comparison.LATENCY_MEDIAN: 5.0,
        comparison.LATENCY_P99: pytest.approx(7.94),
    }
    assert comparison.latency_metrics("a", [{}], 1) == []


LIVE = {
    "rate": 10,
    "since_ms": 0.0,
    "began_ms": [i * 1_000.0 for i in range(20)],
    "asked_ms": 8_000.0,
    "done_ms": 10_000.0,
    "settle_ms": 1_000.0,
    "before_ms": 5_000.0,
    "fetched": [0] * 20,
    "prefetched": 0,
    "pieces": 0,
    "steps": 0,
    "bins": 0,
    "phase_ms": {},
    "rows_per_second": 100.0,
    "bytes": 1,
}
"""What `latency_run` lacks to be a run of a changed stream, or of what comes before such runs."""

PROFILED = {
    "events": 10,
    "windows": 1,
    "tasks": 1,
    "reading": [1.0],
    "analysing": [1.0],
    "causes": ["processing"],
    "shares": [0.5],
    "text": ["work"],
    "separation": 2.5,
    "usual": 1.0,
    "operators": [("MapInPandas split", 0.5, 0.4, 2), ("MapInPandas counted", 0.25, 0.4, 4)],
    "off": [[2.0]],
    "on": [[2.0]],
    "busy": 0.1,
}
"""And to be a run of a profile."""

TRUTH = Truth(keys=1, rows=2, total=3, weighted=4)


def placed_run(*, placed: bool) -> dict[str, Any]:
    """A run of `placement`: 90 timesteps of which those after a placement are shorter."""
    timesteps = [[n, 10.0 if n <= 70 or not placed else 5.0, 100] for n in range(1, 91)]
    return {"timesteps": timesteps, "begun": 40, "installed": 65, "placed": [70] if placed else []}


def failed_run() -> dict[str, Any]:
    """A run of `recovery` at 10 lines per second for 15 s, in which a batch waits 4 s from second 10 on."""
    ends = [*range(1, 11), 14, 15]
    commits = [
        [10 * first, 10 * end, 1_000_000_000 * end]
        for first, end in zip([0, *ends[:-1]], ends, strict=True)
    ]
    began = [1_000_000_000 * end - 500_000_000 for end in ends]
    began[10] = 10_000_000_000
    return {
        "start_ns": 0,
        "commits": commits,
        "began_ns": began,
        "failed_ns": 10_100_000_000,
        "known_ns": 13_000_000_000,
        "failed": 1,
    }


TINY: dict[str, dict[str, Any]] = {
    "kafka": {"bootstrap": "nowhere:1", "rows": 10, "per_batch": 2},
    "kafka-latency": {"bootstrap": "nowhere:1"},
    "recovery": {"rate": 10, "warmup_seconds": 5, "before_seconds": 5, "after_seconds": 5},
    "ingest": {"producers": [2], "rows": [1, 50], "seconds": 0.2},
    "latency": {"rate": 10, "warmup_seconds": 5, "seconds": 10},
    "nexmark": {"events": 10_000},
    "nexmark-flink": {"events": 1_000},
    "scaling-cost": {"operators": 3, "tasks": 5, "evaluations": 2},
    "scaling-day": {"seconds": 600.0, "seeds": 1},
    "tables": {
        "places": ["delta", "iceberg"],
        "rows": 10,
        "updates": 2,
        "keys": 20,
        "timesteps": 1,
    },
}
"""Sizes of benchmarks that compute something themselves, whatever becomes of their processes."""


@contextmanager
def no_server(folder: Path) -> Iterator[Any]:
    """A proxy that no request ever reaches."""
    del folder
    yield SimpleNamespace(faults=SimpleNamespace(), did=Counter())


RUNS: dict[str, Callable[[], dict[str, Any]]] = {
    "autopilot": flown,
    "billion": lambda: {
        "seconds": 900.0,
        "down_seconds": 12.0,
        "timesteps_before": 9,
        "timesteps_after": 3,
    },
    "ds2-flink": word_count,
    "ds2-heron": heron_run,
    "kafka": lambda: {"ended": [1.0, 2.0, 3.0, 4.0, 5.0], "rows": [2, 4, 6, 8, 10]},
    "kafka-latency": lambda: {"waits": [(1.0, 5_000.0), (30.0, 10.0)]},
    "nexmark-flink": lambda: {"processor": [1.0] * 6},
    "object-store": lambda: {"ms": [40.0] * 60, "timesteps": 90},
    "recovery": failed_run,
    "scale-logs": lambda: advised_run(2_000.0),
    "width": lambda: {"took_ms": [40.0] * 60, "runs_per_task": 8.0},
    "simulator-error": recorded_run,
}
"""What a run returns beside the rest, for benchmarks whose sides return the same."""
ONLY = {"ds2-heron": frozenset({"ds2", SPARK})}
"""Variants of benchmarks that simulate others besides."""


@pytest.mark.parametrize("name", list(BENCHMARKS))
def test_goals_are_ratios_of_the_full_size(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fake(v: Variant, directory: Path, **_: Any) -> Run:
        count = v.parameters.get("batches", 0)
        batches = {"seconds": [1.0] * count, "rows": [10] * count}
        made = {**batches, **latency_run(0), **LIVE, **PROFILED}
        if name == "big-timestep":
            made |= {"seconds": [1.0], "rows": [v.parameters["rows"]], "workers": [[1, 2]]}
            made["state"] = asdict(TRUTH)
        if name == "batch-interval":
            made |= stepped_run(v)
        if name == "ds2-nexmark":
            made |= measured([{LOADS[v.name].main: 28}] * 4)
        made |= RUNS.get(name, dict)()
        if name == "placement":
            made |= placed_run(placed=v.name == "placed")
        if name == "trisk":
            made |= {"latency_ms": [1.0] * 3, "f1": [0.5] * 40, "digest": "", "trades": 0}
            made["log"] = made["changes"] = [1] if v.parameters["controlled"] else []
        return succeeded(v.name, made, {"driver": 1} if name == "billion" else None)

    monkeypatch.setattr(trials, "run_variant", fake)
    monkeypatch.setattr(comparison, "write_keyed_batches", lambda *_, **__: None)
    for work in ("create", "fill"):
        monkeypatch.setattr(f"benchmarks.kafka_topics.{work}", lambda *_, **__: None)
    monkeypatch.setattr("benchmarks.object_store.server", no_server)
    monkeypatch.setattr("benchmarks.big_timestep.write_input", lambda *_, **__: TRUTH)
    monkeypatch.setattr("benchmarks.scale.available_cpus", lambda: (0, 1))
    chosen = BENCHMARKS[name]
    result = chosen.run(
        chosen.parameters(quick=False, overrides=TINY.get(name, {})),
        bench(tmp_path, only=ONLY.get(name, frozenset())),
    )
    assert set(chosen.goals) <= set(result.ratios)
