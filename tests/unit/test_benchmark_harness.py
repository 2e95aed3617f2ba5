"""The benchmark harness: its arithmetic, its input, its processes, and what it writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import benchmarks
from benchmarks import command, comparison, environment, memory, process, report, trials
from benchmarks.big_timestep import Truth
from benchmarks.clock_source import ClockSource, RowRange, Schedule, scattered
from benchmarks.comparison import Ratio
from benchmarks.harness import (
    Benchmark,
    Failure,
    Metric,
    Picture,
    Result,
    Series,
    UnknownNameError,
    Variant,
    Workbench,
)
from benchmarks.inputs import batch_glob, keyed_rows, write_keyed_batches
from benchmarks.measurements import creation_ns, latencies_ms, rows_due, steady_seconds
from benchmarks.process import Run
from benchmarks.progress import ConsoleProgress
from benchmarks.registry import BENCHMARKS

PICTURE = Picture(
    title="t", x_label="x", y_label="y", series=(Series(label="a", x=(1.0, 2.0), y=(3.0, 4.0)),)
)


class Silence:
    """Progress that nobody watches; keeps the steps."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def detail(self, text: str) -> None:
        pass


def bench(tmp_path: Path, only: frozenset[str] = frozenset()) -> Workbench:
    return Workbench(scratch=str(tmp_path), progress=Silence(), only=only)


def variant(name: str, function: str = "builtins:dict", **parameters: Any) -> Variant:
    return Variant(name=name, function=function, parameters=parameters)


def succeeded(name: str, measurement: dict[str, Any], memory: dict[str, int] | None = None) -> Run:
    return Run(variant=name, measurement=measurement, failure=None, memory=memory or {})


def failed(name: str) -> Run:
    failure = Failure(variant=name, reason="exit code 1", stderr_tail="it broke")
    return Run(variant=name, measurement=None, failure=failure, memory={})


# --- arithmetic of measurements -----------------------------------------------------------------


@given(
    start=st.integers(0, 10**18),
    rate=st.integers(1, 5_000),
    elapsed=st.integers(-10, 3 * 10**9),
)
def test_rows_due_are_the_rows_created_by_now(start: int, rate: int, elapsed: int) -> None:
    rows = np.arange(4 * rate, dtype=np.int64)
    created = creation_ns(rows, start_ns=start, rate=rate)
    assert rows_due(start + elapsed, start_ns=start, rate=rate) == int(
        (created <= start + elapsed).sum()
    )


def test_rows_are_created_at_an_even_rate() -> None:
    created = creation_ns(np.array([0, 1, 2, 3, 3_000_000]), start_ns=5, rate=3)
    assert created.tolist() == [
        5,
        333_333_338,
        666_666_671,
        1_000_000_005,
        1_000_000 * 10**9 + 5,
    ]


@given(cuts=st.lists(st.integers(1, 400), min_size=1, max_size=8), data=st.data())
def test_latency_is_commit_minus_creation_row_by_row(cuts: list[int], data: st.DataObject) -> None:
    edges = [0, *sorted(set(cuts))]
    first = data.draw(st.integers(0, edges[-1] - 1))
    end = data.draw(st.integers(first + 1, edges[-1]))
    commits = [(a, b, 10**9 * (i + 7)) for i, (a, b) in enumerate(pairwise(edges))]
    measured = latencies_ms(
        {"start_ns": 11, "commits": commits[::-1]}, rate=100, first_row=first, end_row=end
    )
    expected = [
        (committed - (11 + row * 10_000_000)) / 1e6
        for a, b, committed in commits
        for row in range(a, b)
        if first <= row < end
    ]
    assert measured.tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    "commits",
    [
        [],
        [(0, 5, 1), (6, 10, 2)],
        [(0, 6, 1), (5, 10, 2)],
        [(0, 9, 1)],
        [(1, 10, 1)],
    ],
)
def test_latency_refuses_rows_that_were_not_committed_exactly_once(
    commits: list[tuple[int, int, int]],
) -> None:
    with pytest.raises(ValueError, match="rows 0 to 10"):
        latencies_ms({"start_ns": 0, "commits": commits}, rate=1, first_row=0, end_row=10)


def test_warm_up_is_dropped_from_every_run() -> None:
    runs = [{"seconds": [9.0, 1.0, 2.0]}, {"seconds": [8.0, 3.0]}]
    assert steady_seconds(runs, 1).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="run more batches"):
        steady_seconds(runs, 2)


# --- the clock-driven source --------------------------------------------------------------------


@given(first=st.integers(0, 500), count=st.integers(0, 500), partitions=st.integers(1, 7))
def test_parts_hold_every_row_once(first: int, count: int, partitions: int) -> None:
    schedule = Schedule(start_ns=3, rate=50, keys=10, partitions=partitions)
    ranges = schedule.ranges(first, first + count)
    rows = [row for part in ranges for row in range(part.first, part.end)]
    assert rows == list(range(first, first + count))
    assert len(ranges) == (partitions if count else 0)


def test_a_row_does_not_depend_on_how_it_is_read() -> None:
    schedule = Schedule(start_ns=3, rate=50, keys=10, partitions=4)
    parts = [schedule.batch(part.first, part.end) for part in schedule.ranges(17, 90)]
    assert pa.Table.from_batches(parts).combine_chunks() == pa.table(schedule.batch(17, 90))


def test_keys_are_scattered_evenly() -> None:
    keys = scattered(np.arange(100_000), 50)
    counts = np.bincount(keys, minlength=50)
    assert len(counts) == 50
    assert counts.min() > 1_900
    assert counts.max() < 2_100


def test_the_source_reads_its_options_and_never_goes_back() -> None:
    options = {"start_ns": "0", "rate": "1000", "keys": "50", "partitions": "5"}
    reader = ClockSource(options).streamReader(None)
    assert reader.initialOffset() == {"rows": 0}
    far = {"rows": 10**18}
    assert reader.latestOffset(far, None) == far
    assert reader.latestOffset({"rows": 0}, None)["rows"] > 10**12
    parts = reader.partitions({"rows": 10}, {"rows": 20})
    assert [(p.first, p.end) for p in parts] == [(10, 12), (12, 14), (14, 16), (16, 18), (18, 20)]
    (batch,) = reader.read(RowRange(10, 12))
    assert batch["created_ns"].to_pylist() == [10_000_000, 11_000_000]
    assert reader.partitions({"rows": 10}, {"rows": 10}) == []


def test_workers_do_not_pay_for_tables_and_pictures() -> None:
    code = "import sys, benchmarks.clock_source; print([m for m in ('rich', 'matplotlib') if m in sys.modules])"
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=process.environment(os.environ),
    )
    assert told.stdout.strip() == "[]"


# --- input --------------------------------------------------------------------------------------


def test_input_is_the_same_from_the_same_seed(tmp_path: Path) -> None:
    shape = {"rows": 101, "keys": 7, "batches": 3, "files": 2}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_keyed_batches(tmp_path / name, seed=seed, **shape)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == [f"batch-{b:05d}-part-{f}.parquet" for b in range(3) for f in range(2)]
    for name in files:
        same = (tmp_path / "a" / name).read_bytes()
        assert (tmp_path / "b" / name).read_bytes() == same
        assert (tmp_path / "c" / name).read_bytes() != same


def test_input_has_the_promised_rows_keys_and_order(tmp_path: Path) -> None:
    write_keyed_batches(tmp_path / "in", rows=101, keys=7, batches=3, files=2, seed=1)
    paths = sorted((tmp_path / "in").iterdir())
    times = [path.stat().st_mtime_ns for path in paths]
    assert times == sorted(set(times))
    assert [pq.read_metadata(path).num_rows for path in paths] == [50, 51] * 3
    table = pq.read_table(paths[0])
    assert table.schema == pa.schema({"key": pa.int64(), "value": pa.int64()})
    keys = keyed_rows(5_000, keys=7, seed=(1,))["key"].to_numpy()
    assert set(keys.tolist()) == set(range(7))


def test_the_glob_names_the_first_batches() -> None:
    assert batch_glob(2) == "{batch-00000,batch-00001}-part-*.parquet"


# --- parameters and values ----------------------------------------------------------------------


def benchmark(run: Any = None, **fields: Any) -> Benchmark:
    return Benchmark(
        name="toy",
        purpose="to be tested",
        defaults={"size": {"rows": 10, "keys": 5}, "rounds": 2},
        quick={"rounds": 1},
        run=run or (lambda parameters, bench: Result),
        **fields,
    )


def test_quick_and_overrides_replace_defaults() -> None:
    toy = benchmark()
    assert toy.parameters(quick=False, overrides={}) == {
        "size": {"rows": 10, "keys": 5},
        "rounds": 2,
    }
    chosen = toy.parameters(quick=True, overrides={"size.rows": 3})
    assert chosen == {"size": {"rows": 3, "keys": 5}, "rounds": 1}
    assert toy.defaults["size"] == {"rows": 10, "keys": 5}


@pytest.mark.parametrize("name", ["speed", "size.speed"])
def test_unknown_parameters_are_refused(name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"no parameter '{name}'"):
        benchmark().parameters(quick=False, overrides={name: 1})


def test_values_are_legal_or_refused() -> None:
    with pytest.raises(ValueError, match="quick sets unknown parameters"):
        Benchmark(name="n", purpose="p", defaults={}, quick={"a": 1}, run=benchmark().run)
    with pytest.raises(ValueError, match="is nan"):
        Metric(name="m", value=float("nan"), unit="s", variant="v")
    with pytest.raises(ValueError, match="is inf"):
        Result(parameters={}, metrics=(), ratios={"r": float("inf")}, picture=PICTURE)
    with pytest.raises(ValueError, match="2 x but 1 y"):
        Series(label="s", x=(1.0, 2.0), y=(1.0,))
    with pytest.raises(ValueError, match="not 'module:name'"):
        Variant(name="v", function="module.name", parameters={})


# --- running variants ---------------------------------------------------------------------------


def test_variants_alternate() -> None:
    order = trials.schedule([variant("a"), variant("b")], 2)
    assert [(number, v.name) for number, v in order] == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]


def test_a_failed_variant_is_kept_as_failed_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def fake(v: Variant, directory: Path, **_: Any) -> Run:
        ran.append(v.name)
        bad = v.name == "b"
        return failed("b") if bad else succeeded(v.name, {"n": len(ran)}, {"jvm": len(ran) * 10**6})

    monkeypatch.setattr(trials, "run_variant", fake)
    found = trials.run_trials(
        [variant("a"), variant("b"), variant("c")],
        bench(tmp_path, frozenset({"a", "b"})),
        rounds=2,
        timeout=1.0,
        check=lambda variant, measurement: None,
    )
    assert ran == ["a", "b", "a"]
    assert found.variants == ("a",)
    assert found.of("a") == [{"n": 1}, {"n": 3}]
    assert [failure.variant for failure in found.failures] == ["b"]
    assert [(m.name, m.value, m.variant) for m in found.memory()] == [("memory jvm", 3.0, "a")]


def test_a_measurement_that_cannot_be_used_counts_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "run_variant", lambda v, d, **_: succeeded(v.name, {"n": 1}))

    def check(v: Variant, measurement: Any) -> None:
        if v.name == "b":
            measurement["seconds"]

    found = trials.run_trials(
        [variant("a"), variant("b")], bench(tmp_path), rounds=2, timeout=1.0, check=check
    )
    assert found.variants == ("a",)
    assert [failure.reason for failure in found.failures] == [
        "its measurement cannot be used: KeyError: 'seconds'"
    ]


def test_unknown_variants_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="no variant 'z'; known here: a, b"):
        trials.run_trials(
            [variant("a"), variant("b")],
            bench(tmp_path, frozenset({"a", "z"})),
            rounds=1,
            timeout=1.0,
            check=lambda variant, measurement: None,
        )


@pytest.mark.parametrize(
    "run",
    [
        {"seconds": [1.0] * 4, "rows": [1] * 4},
        {"seconds": [1.0] * 5, "rows": [1] * 4},
        {"seconds": [1.0] * 6, "rows": [1] * 6},
    ],
)
def test_a_run_that_did_not_go_batch_by_batch_is_refused(run: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="for 5 batches"):
        comparison.check_batches(variant("v", batches=5, warmup=2), run)


def test_phases_are_medians_without_the_warm_up() -> None:
    runs = [{"phases": {"plan": [99.0, 1.0, 2.0], "rare": [5.0]}}, {}, {"phases": {"plan": [9, 4]}}]
    found = trials.phase_metrics("v", runs, warmup=1)
    assert [(m.name, m.value, m.unit) for m in found] == [("phase plan", 2.0, "ms")]


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with functions for variants, importable in their processes."""
    (tmp_path / "toy_variants.py").write_text(
        textwrap.dedent(
            """
            import os, sys, time

            def echo(parameters):
                print("half way", flush=True)
                return {**parameters, "scratch": os.path.isdir(parameters["scratch"])}

            def fail(parameters):
                raise ArithmeticError("the reason why")

            def hang(parameters):
                print("hanging", flush=True)
                time.sleep(600)

            def cpus(parameters):
                return {"cpus": sorted(os.sched_getaffinity(0))}
            """
        )
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "toy_variants"


def test_a_variant_runs_in_a_process_and_returns_its_measurement(
    functions: str, tmp_path: Path
) -> None:
    heard: list[str] = []
    toy = variant("v", f"{functions}:echo", rows=3)
    run = process.run_variant(toy, tmp_path / "run", timeout=60, detail=heard.append)
    assert run.failure is None
    assert run.measurement == {"rows": 3, "scratch": True}
    assert heard == ["half way"]


def test_a_variant_that_raises_is_reported_with_its_error_output(
    functions: str, tmp_path: Path
) -> None:
    toy = variant("v", f"{functions}:fail")
    run = process.run_variant(toy, tmp_path / "run", timeout=60, detail=print)
    assert run.measurement is None
    assert run.failure is not None
    assert run.failure.reason == "exit code 1"
    assert run.failure.stderr_tail.endswith("ArithmeticError: the reason why")


def test_a_variant_that_hangs_is_ended(functions: str, tmp_path: Path) -> None:
    toy = variant("v", f"{functions}:hang")
    run = process.run_variant(toy, tmp_path / "run", timeout=1, detail=print)
    assert run.failure is not None
    assert run.failure.reason == "did not end within 1 s"


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cannot pin processes here")
def test_a_variant_can_be_pinned(functions: str, tmp_path: Path) -> None:
    one = min(os.sched_getaffinity(0))
    toy = Variant(name="v", function=f"{functions}:cpus", parameters={}, cpus=(one,))
    run = process.run_variant(toy, tmp_path / "run", timeout=60, detail=print)
    assert run.measurement == {"cpus": [one]}


def test_memory_is_summed_by_role_over_one_session(tmp_path: Path) -> None:
    def add(pid: int, session: int, command: str, anonymous: int, mapped: int) -> None:
        entry = tmp_path / str(pid)
        entry.mkdir()
        (entry / "stat").write_text(f"{pid} (a ) name) S 1 {pid} {session} 0 -1")
        (entry / "cmdline").write_bytes(command.replace(" ", "\0").encode())
        status = f"Name:\tx\nRssAnon:\t{anonymous} kB\nRssFile:\t{mapped} kB\nRssShmem:\t1 kB\n"
        (entry / "status").write_text(status)

    add(10, 10, "python -m benchmarks.variant a:b {}", 100, 5)
    add(11, 10, "/usr/bin/java -cp x", 200, 6)
    add(12, 10, "python -m pyspark.daemon pyspark.worker", 30, 7)
    add(13, 10, "python -m pyspark.daemon pyspark.worker", 40, 8)
    add(14, 99, "python -m pyspark.daemon pyspark.worker", 999, 9)
    (tmp_path / "self").mkdir()
    peak = memory.MemoryPeak()
    peak.sample(10, tmp_path)
    (tmp_path / "11" / "status").write_text("RssAnon:\t10 kB\n")
    peak.sample(10, tmp_path)
    assert peak.bytes == {
        "driver": 101 * 1024,
        "jvm": 201 * 1024,
        "workers": 72 * 1024,
        "workers mapped": 15 * 1024,
    }


def test_memory_is_unknown_without_proc(tmp_path: Path) -> None:
    assert memory.usage(1, tmp_path / "absent") == {}


# --- every benchmark, with invented measurements ------------------------------------------------

SECONDS = {
    "rechannel": 1.0,
    "hdfs": 5.0,
    "rocksdb": 9.0,
    "rechannel_small": 0.5,
    "hdfs_small": 2.0,
    "rocksdb_small": 1.0,
    "rechannel_per_key": 2.0,
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
LARGE_AND_SMALL = {"large": {"rows": 20, "keys": 5}, "small": {"rows": 10, "keys": 2}}
PEER_BATCHES = {"rows": 20, "keys": 5, "peer_batches": 6, "peer_warmup": 2}


@pytest.mark.parametrize(
    ("name", "overrides", "ratios"),
    [
        (
            "keyed-state",
            {"cases": LARGE_AND_SMALL},
            {"hdfs": 5.0, "rocksdb": 9.0, "hdfs_small": 4.0, "rocksdb_small": 2.0},
        ),
        (
            "python-state",
            {"cases": {"large": PEER_BATCHES}},
            {
                "applyInPandasWithState_per_key": 45.0,
                "applyInPandasWithState_vectorised": 90.0,
                "transformWithState_per_key": 25.0,
                "transformWithState_vectorised": 50.0,
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
    assert set(result.ratios) == {"rocksdb", "hdfs_small", "rocksdb_small"}
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
        return succeeded(v.name, made)

    monkeypatch.setattr(trials, "run_variant", fake)
    monkeypatch.setattr(comparison, "write_keyed_batches", lambda *_, **__: None)
    monkeypatch.setattr("benchmarks.big_timestep.write_input", lambda *_, **__: TRUTH)
    monkeypatch.setattr("benchmarks.scale.available_cpus", lambda: (0, 1))
    chosen = BENCHMARKS[name]
    tiny = {"rate": 10, "warmup_seconds": 5, "seconds": 10} if name == "latency" else {}
    result = chosen.run(chosen.parameters(quick=False, overrides=tiny), bench(tmp_path))
    assert set(chosen.goals) <= set(result.ratios)


# --- what is written ----------------------------------------------------------------------------

RESULT = Result(
    parameters={"rounds": 1},
    metrics=(
        Metric(name="median", value=1234.5, unit="ms", variant="ours"),
        Metric(name="median", value=0.12345, unit="ms", variant="theirs"),
    ),
    ratios={"theirs": 2.5, "bound": 0.5},
    picture=PICTURE,
    failures=(Failure(variant="other", reason="exit code 7", stderr_tail="[boom] went [/it]"),),
)


def test_json_has_exactly_the_documented_keys() -> None:
    document = report.as_json(RESULT, {"python": "3"}, {"cpus": 2})
    assert json.loads(json.dumps(document)) == {
        "versions": {"python": "3"},
        "hardware": {"cpus": 2},
        "parameters": {"rounds": 1},
        "metrics": [
            {"name": "median", "value": 1234.5, "unit": "ms", "variant": "ours"},
            {"name": "median", "value": 0.12345, "unit": "ms", "variant": "theirs"},
            {"name": "failed", "value": 1.0, "unit": "runs", "variant": "other"},
        ],
        "ratios": {"theirs": 2.5, "bound": 0.5},
    }


def test_many_variants_are_told_one_below_the_other(tmp_path: Path) -> None:
    metrics = [
        Metric(name=name, value=number + 0.5, unit="s", variant=f"variant_{number}")
        for number in range(report.COLUMNS + 1)
        for name in ("mean batch", "slowest batch")
    ]
    report.write_text(
        tmp_path / "t.txt", report.tables(replace(RESULT, metrics=tuple(metrics)), {})
    )
    lines = (tmp_path / "t.txt").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if "variant_8" in line]
    assert line.strip("│ ").replace("│", "").split() == ["variant_8", "mean", "batch", "8.5", "s"]
    assert sum("slowest batch" in line for line in lines) == report.COLUMNS + 1


def test_tables_show_goals_and_failures(tmp_path: Path) -> None:
    report.write_text(
        tmp_path / "t.txt", report.tables(RESULT, {"theirs": 2.0, "bound": 1.0, "absent": 3.0})
    )
    text = (tmp_path / "t.txt").read_text()
    lines = [line.split() for line in text.splitlines()]
    assert any({"median", "1,234", "0.123"} <= set(line) for line in lines)
    assert any({"theirs", "2.50", "2", "yes"} <= set(line) for line in lines)
    assert any({"bound", "0.50", "1", "no"} <= set(line) for line in lines)
    assert "other failed: exit code 7" in text
    assert "[boom] went [/it]" in text


def test_versions_and_hardware_are_told() -> None:
    assert set(environment.versions()) >= {
        "python",
        "pyspark",
        "pyarrow",
        "numpy",
        "polars",
        "java",
        "rechannel",
    }
    assert environment.package_version("no-such-package") == "not installed"
    machine = environment.hardware()
    assert set(machine) == {
        "cpu",
        "cpus_usable",
        "cpus",
        "memory_bytes",
        "os",
        "load_before",
    }
    assert int(machine["cpus_usable"]) >= 1


def test_java_tells_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment\n'
    assert environment.parse_java_version(told) == "17.0.15"
    assert environment.parse_java_version("nothing") == "unknown"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert environment.java_version() == "not installed"


def toy_command(monkeypatch: pytest.MonkeyPatch, result: Result) -> list[dict[str, Any]]:
    """Put a benchmark that returns `result` into the registry; the parameters it was run with."""
    ran: list[dict[str, Any]] = []

    def run(parameters: Any, workbench: Workbench) -> Result:
        assert Path(workbench.scratch).is_dir()
        ran.append({**parameters, "only": workbench.only})
        return result

    monkeypatch.setitem(command.BENCHMARKS, "toy", benchmark(run))
    return ran


def test_the_command_writes_table_picture_and_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = Result(parameters={"n": 1}, metrics=RESULT.metrics, ratios={}, picture=PICTURE)
    ran = toy_command(monkeypatch, whole)
    out, file = tmp_path / "new" / "out", tmp_path / "also" / "toy.json"
    code = benchmarks.main(
        [
            *("toy", "--quick", "--out", str(out), "--json", str(file)),
            *("--set", "size.keys=7", "--only", "ours", "--rounds", "5", "--size.rows=3"),
        ]
    )
    assert code == 0
    assert ran == [{"size": {"rows": 3, "keys": 7}, "rounds": 5, "only": frozenset({"ours"})}]
    assert "median" in capsys.readouterr().out
    assert "median" in (out / "toy.txt").read_text()
    assert (out / "toy.png").read_bytes().startswith(b"\x89PNG")
    assert set(json.loads(file.read_text())) == {
        "versions",
        "hardware",
        "parameters",
        "metrics",
        "ratios",
    }


def test_the_command_fails_if_a_variant_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toy_command(monkeypatch, RESULT)
    assert benchmarks.main(["toy", "--out", str(tmp_path)]) == 1
    assert "exit code 7" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["nothing"], "invalid choice"),
        (["scale", "--set", "speed=1"], "no parameter 'speed'"),
        (["latency", "--only", "nobody"], "no variant 'nobody'"),
        (["scale", "--set", "seed"], "is not NAME=JSON"),
        (["scale", "--set", "durability=power"], "is not JSON"),
        (["scale", "--speed", "1"], "no parameter 'speed'"),
        (["scale", "--seed"], "say --NAME JSON"),
        (["scale", "--seed", "power"], "is not JSON"),
    ],
)
def test_the_command_refuses_what_it_does_not_know(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        benchmarks.main(argv)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_the_command_lists_every_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmarks.main([]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in BENCHMARKS)


def test_progress_shows_steps_at_once_and_details_now_and_then(tmp_path: Path) -> None:
    now = [100.0]
    with (tmp_path / "told.txt").open("w") as file:
        console = Console(file=file, width=80)
        with ConsoleProgress(console, clock=lambda: now[0]) as progress:
            progress.step("first [step]")
            now[0] += 5
            progress.detail("too soon")
            now[0] += 6
            progress.detail("batch 2")
            progress.detail("too soon again")
            now[0] += 1
            progress.step("second")
    lines = (tmp_path / "told.txt").read_text().splitlines()
    assert [line.split(maxsplit=2) for line in lines] == [
        ["0", "s", "first [step]"],
        ["11", "s", "first [step]: batch 2"],
        ["12", "s", "second"],
    ]
