"""What it costs a running job that it is looked at: its timesteps while `rc.profile_session` is on, and while off.

Both in the same job, by turns of some seconds, so that a machine that drifts treats both alike. Beside that, how long
the thread that looks is at work, which is less noisy and an upper bound on what it can take from one core.
"""

from __future__ import annotations

import time
from itertools import pairwise
from statistics import mean, median
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness import (
    Benchmark,
    Measurement,
    Metric,
    Parameters,
    Picture,
    Result,
    Series,
    Variant,
    Workbench,
)
from benchmarks.trials import run_trials

if TYPE_CHECKING:
    import pyarrow as pa

BOUND = 1.02
"""A timestep that is watched takes at most so many times as long as one that is not."""


def run_job(parameters: Parameters) -> Measurement:
    """Milliseconds of timesteps by turn, and the share of time for which the thread that looks was at work."""
    import rechannel as rc
    from benchmarks import rechannel_side as side
    from rechannel import aggregates as agg

    spark = side.session(parameters)
    numbers = rc.read(spark).generator(
        scattered,
        schema="key BIGINT, value BIGINT",
        per_timestep=parameters["rows"],
        partitions=parameters["tasks"],
    )
    counted = numbers.key_by("key").aggregate(n=agg.count(), total=agg.sum("value"))
    job = side.start(parameters, counted, tasks=parameters["tasks"])
    turns: list[tuple[float, bool]] = []
    busy, windows = 0.0, 0
    try:
        while job.status.timestep < parameters["warmup"]:
            time.sleep(0.1)
        for turn in range(2 * parameters["turns"]):
            on = bool(turn % 2)
            turns.append((time.time(), on))
            if on:
                spent = watched(spark, parameters)
                busy, windows = busy + sum(spent), windows + len(spent)
            else:
                time.sleep(parameters["seconds"])
        turns.append((time.time(), False))
    finally:
        job.stop()
    ends = [at / 1e9 for _, _, at in side.commits(parameters, None)]
    return {
        "off": steps(ends, turns, on=False),
        "on": steps(ends, turns, on=True),
        "busy": busy / (parameters["turns"] * parameters["seconds"]),
        "windows": windows,
    }


def watched(spark: Any, parameters: Parameters) -> list[float]:
    """Watch for a turn; seconds that every look took."""
    import rechannel as rc
    from rechannel.profiling.spark.live import LiveSession

    spent: list[float] = []
    look = LiveSession.window

    def timed(self: LiveSession, start_ms: int, end_ms: int) -> Any:
        begun = time.perf_counter()
        found = look(self, start_ms, end_ms)
        spent.append(time.perf_counter() - begun)
        return found

    LiveSession.window = timed  # type: ignore[method-assign]
    try:
        with rc.profile_session(spark, window=parameters["window"]):
            time.sleep(parameters["seconds"])
    finally:
        LiveSession.window = look  # type: ignore[method-assign]
    return spent


def scattered(start: int, stop: int) -> pa.RecordBatch:
    """Rows of 10,007 keys."""
    import pyarrow as pa

    numbers = np.arange(start, stop, dtype=np.int64)
    return pa.record_batch({"key": numbers * 7_919 % 10_007, "value": numbers})


def steps(ends: list[float], turns: list[tuple[float, bool]], *, on: bool) -> list[list[float]]:
    """Milliseconds of the timesteps that were within each turn of a kind."""
    return [
        [1_000 * (b - a) for a, b in pairwise(ends) if begin <= a and b <= end]
        for (begin, kind), (end, _) in pairwise(turns)
        if kind == on
    ]


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Measure both, by turns."""
    variant = Variant(
        name="job",
        function="benchmarks.watching:run_job",
        parameters=parameters,
    )
    trials = run_trials(
        [variant],
        bench,
        rounds=parameters["rounds"],
        timeout=parameters["timeout_seconds"],
        check=check,
    )
    metrics: list[Metric] = []
    ratios: dict[str, float] = {}
    series: list[Series] = []
    for name in trials.variants:
        found = trials.of(name)
        # Each turn that is watched against the one before it, which is not.
        factors = [
            mean(on) / mean(off)
            for each in found
            for off, on in zip(each["off"], each["on"], strict=True)
        ]
        metrics = [
            *(
                Metric(
                    name=f"timestep, watch {kind}",
                    value=median(ms for each in found for turn in each[kind] for ms in turn),
                    unit="ms",
                    variant=name,
                )
                for kind in ("off", "on")
            ),
            Metric(name="watched over not", value=median(factors), unit="x", variant=name),
            Metric(name="least turn", value=min(factors), unit="x", variant=name),
            Metric(name="largest turn", value=max(factors), unit="x", variant=name),
            Metric(
                name="looking",
                value=100 * median(each["busy"] for each in found),
                unit="% of the time",
                variant=name,
            ),
        ]
        ratios["bound_2_percent"] = BOUND / median(factors)
        series = [
            Series(
                label="watched over not", x=tuple(map(float, range(len(factors)))), y=tuple(factors)
            )
        ]
    return Result(
        parameters=parameters,
        metrics=(*metrics, *trials.memory()),
        ratios=ratios,
        picture=Picture(
            title="Timesteps that are watched",
            x_label="turn",
            y_label="times as long",
            series=tuple(series),
        ),
        failures=trials.failures,
    )


def check(variant: Variant, made: Measurement) -> None:
    """Raise ValueError for a run with a turn in which nothing happened, or nothing was looked at."""
    if not all(made["off"]) or not all(made["on"]):
        msg = f"{variant.name} has a turn without a timestep"
        raise ValueError(msg)
    if not made["windows"]:
        msg = f"no one looked at {variant.name}"
        raise ValueError(msg)


BENCHMARK = Benchmark(
    name="watching",
    purpose="the timesteps of a job while rc.profile_session is on, and while it is off",
    defaults={
        "rows": 20_000,
        "warmup": 150,
        "turns": 8,
        "seconds": 15,
        "window": "5 seconds",
        "rounds": 1,
        "cores": 2,
        "tasks": 2,
        "durability": "process",
        "driver_memory": "2g",
        "timeout_seconds": 900,
    },
    quick={"turns": 2, "seconds": 6, "warmup": 30, "window": "2 seconds"},
    run=run,
    goals={"bound_2_percent": 1.0},
)
