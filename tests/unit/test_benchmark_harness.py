"""Benchmarks: their parameters, and the processes that variants run in."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import Any

import pytest

from benchmarks import comparison, memory, process, trials
from benchmarks.harness import (
    Benchmark,
    Metric,
    Result,
    Series,
    UnknownNameError,
    Variant,
)
from benchmarks.process import Run
from tests.support.benchmarks import PICTURE, bench, benchmark, failed, succeeded, variant

# --- parameters and values ----------------------------------------------------------------------


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
