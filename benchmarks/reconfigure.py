"""State that moves between two hosts while a stream runs: what it does to latency, by strategy.

The input is due by the clock, at a share of the capacity that is measured first, so that a side that
stops or slows down is charged for every row that has to wait. Other changes of the same stream are
measured with ``change``: ``logic``, and ``rescale``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.harness import (
    Benchmark,
    Failure,
    Measurement,
    Parameters,
    Picture,
    Result,
    UnknownNameError,
    Variant,
    Workbench,
)
from benchmarks.live_figures import CONTROL, figures, picture_of, ratios_of
from benchmarks.ours import measure_live
from benchmarks.timeline import rows_of, spans_of
from benchmarks.trials import Trials, run_trials

PEERS: Mapping[str, str] = {
    "structured_streaming": "benchmarks.peers.reconfigure:run",
    "structured_streaming_repartitioned": "benchmarks.peers.reconfigure:run_repartitioned",
}
"""Sides of Structured Streaming, by name, with their functions."""
RESTARTS = ("restart_session", "restart_process")
MOVES: Mapping[str, Mapping[str, Any]] = {
    "all_at_once": {"kind": "all_at_once"},
    "batched": {"kind": "batched", "bins": 16},
    "fluid": {"kind": "fluid"},
    "optimized": {"kind": "optimized", "bins": 8},
    "fluid_budget": {"kind": "fluid", "bins": 4, "gap": 1, "budget_ms": 25.0},
    "batched_budget": {"kind": "batched", "bins": 16, "gap": 1, "budget_ms": 25.0},
    "optimized_budget": {"kind": "optimized", "bins": 8, "gap": 1, "budget_ms": 25.0},
}
"""Strategies by name; each is also measured without its preparation, as ``..._cold``.

All at once has no budget: within one, it would be batches.
"""
CHANGES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "move": {name: {} for name in MOVES},
    "logic": {"all_at_once": {}},
    "rescale": {"all_at_once": {}, "fluid_budget": {"bins": 16}},
}
"""Strategies that are measured for each ``change``, and what is other than in `MOVES`."""


def run_live(parameters: Parameters) -> Measurement:
    """A running job, changed or left alone."""
    return measure_live("live", parameters)


def run_load(parameters: Parameters) -> Measurement:
    """The state that every run begins with."""
    return measure_live("load", parameters)


def run_capacity(parameters: Parameters) -> Measurement:
    """Rows per second of timesteps of ``rows`` rows."""
    return measure_live("capacity", parameters)


def run_restart_session(parameters: Parameters) -> Measurement:
    """A job that is stopped, and started again, changed, in its session."""
    return measure_live("restart_in_session", parameters)


def run_restart_process(parameters: Parameters) -> Measurement:
    """A job that is stopped, and started again, changed, in a new process."""
    return measure_live("restart_in_process", parameters)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Load the state, measure the capacity, then every variant ``rounds`` times, alternated."""
    if parameters["change"] not in CHANGES:
        raise UnknownNameError(f"no change {parameters['change']!r}; known: {', '.join(CHANGES)}")
    given = {**parameters, "template": str(Path(bench.scratch) / "template")}
    loaded: Measurement = {"bytes": None}
    if parameters["load"]:
        found, failures = once("load", given, bench, "bytes")
        if found is None:
            return failed(parameters, failures)
        loaded = found
    rate, failures = rate_of(given, bench)
    if rate is None:
        return failed(parameters, failures)
    given = {**given, "rate": rate}
    peers, chosen = peer_variants(given, bench)
    trials = run_trials(
        [*variants_of(given), *peers],
        replace(bench, only=bench.only - PEERS.keys() if not peers else bench.only),
        rounds=parameters["rounds"],
        timeout=parameters["timeout_seconds"],
        check=check,
    )
    return result_of({**parameters, "rate": rate, **chosen}, loaded, trials)


def rate_of(parameters: Parameters, bench: Workbench) -> tuple[int | None, tuple[Failure, ...]]:
    """The rate that is given, or a share of the capacity, which is measured; None if that failed."""
    if parameters["rate"] is not None:
        return parameters["rate"], ()
    measured, failures = once("capacity", parameters, bench, "rows_per_second")
    if measured is None:
        return None, failures
    return int(measured["rows_per_second"] * parameters["share"]), failures


def once(
    name: str, parameters: Parameters, bench: Workbench, key: str
) -> tuple[Measurement | None, tuple[Failure, ...]]:
    """One run of what has to be there before the others; None if it failed."""

    def has_key(variant: Variant, run: Measurement) -> None:
        float(run[key])

    function = name if ":" in name else f"benchmarks.reconfigure:run_{name}"
    variant = Variant(
        name=name.rpartition(":")[2], function=function, parameters={**parameters, "rate": None}
    )
    trials = run_trials(
        [variant],
        replace(bench, only=frozenset()),
        rounds=1,
        timeout=parameters["timeout_seconds"],
        check=has_key,
    )
    found = trials.of(variant.name)
    return (found[0] if found else None), trials.failures


def variants_of(parameters: Parameters) -> list[Variant]:
    """The job left alone, every strategy with and without preparation, and both restarts."""
    strategies: dict[str, Mapping[str, Any] | None] = {CONTROL: None}
    for name, own in CHANGES[parameters["change"]].items():
        strategy = {**MOVES[name], **own, **parameters["strategies"].get(name, {})}
        strategies[name] = strategy
        strategies[f"{name}_cold"] = {**strategy, "prepare": False}
    ours = [
        Variant(
            name=name,
            function="benchmarks.reconfigure:run_live",
            parameters={**parameters, "strategy": strategy},
        )
        for name, strategy in strategies.items()
    ]
    cold = {"kind": "all_at_once", "prepare": False}
    again = [
        Variant(
            name=name,
            function=f"benchmarks.reconfigure:run_{name}",
            parameters={**parameters, "strategy": cold},
        )
        for name in RESTARTS
    ]
    left_out = set(parameters["without"])
    return [variant for variant in (*ours, *again) if variant.name not in left_out]


def peer_variants(
    parameters: Parameters, bench: Workbench
) -> tuple[list[Variant], Mapping[str, Any]]:
    """Structured Streaming, at its own share of its own capacity if that is less than our rate."""
    wanted = [
        name
        for name in PEERS
        if (not bench.only or name in bench.only) and name not in parameters["without"]
    ]
    if parameters["change"] == "logic" or not wanted:
        return [], {}
    rate = parameters["peer_rate"]
    if rate is None:
        peer = "benchmarks.peers.reconfigure:capacity"
        measured, _ = once(peer, parameters, bench, "rows_per_second")
        rate = parameters["rate"]
        if measured is not None:
            rate = min(rate, int(measured["rows_per_second"] * parameters["share"]))
    own = {**parameters, "rate": rate}
    variants = [Variant(name=name, function=PEERS[name], parameters=own) for name in wanted]
    return variants, {"peer_rate": rate}


def check(variant: Variant, run: Measurement) -> None:
    """Refuse a run whose rows were not all committed once, or that has no rows in a span."""
    rows = rows_of(run)
    for name, (first, last) in spans_of(run).as_pairs().items():
        if not len(rows.between(first, last)):
            raise ValueError(f"no rows {name} the change")


def result_of(parameters: Parameters, loaded: Measurement, trials: Trials) -> Result:
    """Medians over the runs of each variant, bounds of the budgeted move, and the curves."""
    if parameters["runs"]:
        every = {variant: trials.of(variant) for variant in trials.variants}
        Path(parameters["runs"]).write_text(json.dumps(every), encoding="utf-8")
    what = {"move": "A quarter of the state moves", "logic": "Other logic", "rescale": "Rescaling"}
    return Result(
        parameters={**parameters, "state_bytes": loaded["bytes"]},
        metrics=(*figures(trials), *trials.memory()),
        ratios=ratios_of(
            trials, "fluid_budget" if parameters["change"] != "logic" else "all_at_once"
        ),
        picture=picture_of(trials, f"{what[parameters['change']]} at 0 s: latency of timesteps"),
        failures=trials.failures,
    )


def failed(parameters: Parameters, failures: tuple[Failure, ...]) -> Result:
    """Nothing could be measured."""
    empty = Picture(title="reconfigure", x_label="", y_label="", series=())
    return Result(parameters=parameters, metrics=(), ratios={}, picture=empty, failures=failures)


BENCHMARK = Benchmark(
    name="reconfigure",
    purpose="a quarter of the state moves between two hosts, and other changes of a running stream",
    defaults={
        "change": "move",
        "keys": 10_000_000,
        "load": True,
        "bins": 256,
        "rescale": [2, 4, 8, 2],
        "bandwidth_mb": 200,
        "hosts": 2,
        "rate": None,
        "peer_rate": None,
        "share": 0.6,
        "rows": 200_000,
        "interval_ms": 500,
        "capacity_seconds": 30,
        "warmup_seconds": 10,
        "before_seconds": 8,
        "control_seconds": 25,
        "settle_seconds": 2,
        "after_seconds": 4,
        "strategies": {},
        "without": [],
        "runs": None,
        "rounds": 5,
        "tasks": 4,
        "durability": "process",
        "driver_memory": "2g",
        "host_memory_mb": 1_200,
        "timeout_seconds": 900,
    },
    quick={
        "keys": 200_000,
        "load": False,
        "bins": 64,
        "rate": 20_000,
        "interval_ms": 0,
        "warmup_seconds": 1,
        "before_seconds": 2,
        "control_seconds": 2,
        "settle_seconds": 1,
        "after_seconds": 1,
        "strategies": {"fluid_budget": {"gap": 0}},
        "rounds": 1,
        "without": [
            "batched", "batched_cold", "fluid", "fluid_cold", "optimized", "optimized_cold", "all_at_once",
            "all_at_once_cold", "fluid_budget_cold", "batched_budget", "batched_budget_cold", "optimized_budget",
            "optimized_budget_cold", *RESTARTS, *PEERS,
        ],
    },
    run=run,
    goals={"bound_p99": 1.0, "bound_max": 1.0, "bound_dip": 1.0},
)  # fmt: skip
