"""A billion keys on two hosts: how they are loaded, a quarter of them that moves, and a driver that is killed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks import reconfigure
from benchmarks.harness import (
    Benchmark,
    Measurement,
    Metric,
    Parameters,
    Result,
    Variant,
    Workbench,
)
from benchmarks.live_figures import CONTROL, figures, picture_of, ratios_of
from benchmarks.ours import measure_killed
from benchmarks.reconfigure import failed, once, rate_of, variants_of
from benchmarks.trials import MEGABYTE, Trials, chosen_from, run_trials

MOVE = "fluid_budget"
RESTART_SECONDS = 30.0
MEMORY_MB = 6_000.0
"""Of all processes together, mapped files apart."""
KILLED, KILLED_SMALL = "killed", "killed_small"


def run_killed(parameters: Parameters) -> Measurement:
    """A driver that is killed, and the next one."""
    return measure_killed(parameters)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Load the state and measure the capacity; then the stream alone, the move, and the kills."""
    given = {
        **parameters,
        "change": "move",
        "strategies": {},
        "without": [],
        "load": True,
        "template": str(Path(bench.scratch) / "template"),
    }
    loaded, failures = once("load", given, bench, "bytes")
    if loaded is None:
        return failed(parameters, failures)
    rate, failures = rate_of(given, bench)
    if rate is None:
        return failed(parameters, failures)
    given = {**given, "rate": rate}
    live = [each for each in variants_of(given) if each.name in (CONTROL, MOVE)]
    small = {**given, "keys": parameters["small_keys"], "load": False}
    kills = [
        Variant(name=name, function="benchmarks.billion:run_killed", parameters=own)
        for name, own in ((KILLED, given), (KILLED_SMALL, small))
    ]
    chosen = {each.name for each in chosen_from([*live, *kills], bench.only)}
    trials, killed = (
        run_trials(
            [each for each in variants if each.name in chosen],
            replace(bench, only=frozenset()),
            rounds=parameters["rounds"],
            timeout=parameters["timeout_seconds"],
            check=check,
        )
        for variants, check in ((live, reconfigure.check), (kills, check_killed))
    )
    return result_of({**parameters, "rate": rate}, loaded, trials, killed)


def check_killed(variant: Variant, run: Measurement) -> None:
    """Refuse a run in which nothing was committed before the kill, or after it."""
    if not run["timesteps_before"] or not run["timesteps_after"]:
        raise ValueError(f"{variant.name}: no timestep before the kill, or none after it")


def result_of(
    parameters: Parameters, loaded: Measurement, trials: Trials, killed: Trials
) -> Result:
    """The figures of the move, of the kills, and of memory; their bounds."""
    down = {
        name: median(each["down_seconds"] for each in killed.of(name)) for name in killed.variants
    }
    memory = [*trials.memory(), *killed.memory()]
    held: dict[str, float] = {}
    for metric in memory:
        if not metric.name.endswith("mapped"):
            held[metric.variant] = held.get(metric.variant, 0.0) + metric.value
    ratios = ratios_of(trials, MOVE)
    if KILLED in down:
        ratios["bound_restart"] = RESTART_SECONDS / down[KILLED]
    if KILLED in down and KILLED_SMALL in down:
        ratios["restart_small"] = down[KILLED_SMALL] / down[KILLED]
    if held:
        ratios["bound_memory"] = MEMORY_MB / max(held.values())
    keys = parameters["keys"]
    return Result(
        parameters=parameters,
        metrics=(
            Metric(name="time to load", value=loaded["seconds"], unit="s", variant="load"),
            Metric(name="state", value=loaded["bytes"] / MEGABYTE, unit="MB", variant="load"),
            Metric(name="of a key", value=loaded["bytes"] / keys, unit="bytes", variant="load"),
            *figures(trials),
            *(
                Metric(name="kill to first commit", value=seconds, unit="s", variant=name)
                for name, seconds in down.items()
            ),
            *memory,
        ),
        ratios=ratios,
        picture=picture_of(trials, f"A quarter of {keys:,} keys moves at 0 s: latency"),
        failures=(*trials.failures, *killed.failures),
    )


BENCHMARK = Benchmark(
    name="billion",
    purpose="a billion keys: loaded, a quarter of them moved between two hosts, a driver killed",
    defaults={
        "keys": 1_000_000_000,
        "small_keys": 1_000_000,
        "bins": 1_024,
        "bandwidth_mb": 200,
        "hosts": 2,
        "rate": None,
        "share": 0.5,
        "rows": 200_000,
        "interval_ms": 500,
        "capacity_seconds": 60,
        "warmup_seconds": 60,
        "before_seconds": 20,
        "control_seconds": 300,
        "settle_seconds": 5,
        "after_seconds": 10,
        "rounds": 1,
        "tasks": 4,
        "durability": "process",
        "driver_memory": "2g",
        "host_memory_mb": 1_200,
        "timeout_seconds": 7_200,
    },
    quick={
        "keys": 400_000,
        "small_keys": 40_000,
        "bins": 64,
        "rate": 20_000,
        "interval_ms": 0,
        "warmup_seconds": 1,
        "before_seconds": 2,
        "control_seconds": 3,
        "settle_seconds": 1,
        "after_seconds": 1,
        "timeout_seconds": 900,
    },
    run=run,
    goals={"bound_p99": 1.0, "bound_max": 1.0, "bound_restart": 1.0, "bound_memory": 1.0},
)
