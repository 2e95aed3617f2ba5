"""Time from a row's creation to its committed result, against Structured Streaming with RocksDB."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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
from benchmarks.measurements import latencies_ms
from benchmarks.ours import measure
from benchmarks.trials import phase_metrics, run_trials

RECHANNEL = "rechannel"
PEER = "structured_streaming"
PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "max": 100.0}
CURVE = np.linspace(0.0, 100.0, 401)


def run_rechannel(parameters: Parameters) -> Measurement:
    """Rechannel's side: a keyed count over `benchmarks.clock_source.ClockSource`."""
    return measure("latency", parameters)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Feed both sides with the same clock-driven source, one after the other."""
    variants = [
        Variant(name=RECHANNEL, function="benchmarks.latency:run_rechannel", parameters=parameters),
        Variant(name=PEER, function="benchmarks.peers.latency:run", parameters=parameters),
    ]
    trials = run_trials(
        variants,
        bench,
        rounds=parameters["rounds"],
        timeout=parameters["timeout_seconds"],
        check=check,
    )
    latencies = {
        name: np.concatenate([latencies_of(run, parameters) for run in trials.of(name)])
        for name in trials.variants
    }
    return Result(
        parameters=parameters,
        metrics=(
            *(metric for name in latencies for metric in percentiles(name, latencies[name])),
            *(metric for name in latencies for metric in phase_metrics(name, trials.of(name))),
            *trials.memory(),
        ),
        ratios=ratios_of(latencies),
        picture=Picture(
            title="Time from a row's creation to its committed result",
            x_label="milliseconds",
            y_label="share of rows",
            series=tuple(curve(name, values) for name, values in latencies.items()),
            log_x=True,
        ),
        failures=trials.failures,
    )


def check(variant: Variant, run: Measurement) -> None:
    """Refuse a run that did not commit every row once."""
    latencies_of(run, variant.parameters)
    phase_metrics(variant.name, [run])


def latencies_of(run: Measurement, parameters: Parameters) -> npt.NDArray[np.float64]:
    """Latency in ms of every row created after the warm-up."""
    rate = parameters["rate"]
    first = parameters["warmup_seconds"] * rate
    end = first + parameters["seconds"] * rate
    return latencies_ms(run, rate=rate, first_row=first, end_row=end)


def percentiles(variant: str, latencies: npt.NDArray[np.float64]) -> list[Metric]:
    """p50, p95, p99 and the maximum in ms."""
    return [
        Metric(name=name, value=float(np.percentile(latencies, q)), unit="ms", variant=variant)
        for name, q in PERCENTILES.items()
    ]


def ratios_of(latencies: dict[str, npt.NDArray[np.float64]]) -> dict[str, float]:
    """Peer over Rechannel; ``p50_third`` is 1 or more if Rechannel needs at most a third."""
    if RECHANNEL not in latencies or PEER not in latencies:
        return {}
    ratios = {
        name: float(np.percentile(latencies[PEER], q) / np.percentile(latencies[RECHANNEL], q))
        for name, q in PERCENTILES.items()
        if name != "max"
    }
    return {"p50_third": ratios["p50"] / 3, **ratios}


def curve(variant: str, latencies: npt.NDArray[np.float64]) -> Series:
    """The distribution of latencies."""
    return Series(
        label=variant,
        x=tuple(np.percentile(latencies, CURVE).tolist()),
        y=tuple((CURVE / 100).tolist()),
    )


BENCHMARK = Benchmark(
    name="latency",
    purpose="time from a row's creation to its committed result, at 1,000 rows per second",
    defaults={
        "rate": 1_000,
        "keys": 50_000,
        "partitions": 5,
        "tasks": 5,
        "cores": 2,
        "warmup_seconds": 20,
        "seconds": 60,
        "rounds": 2,
        "durability": "process",
        "driver_memory": "4g",
        "timeout_seconds": 600,
    },
    quick={"warmup_seconds": 8, "seconds": 5, "rounds": 1},
    run=run,
    goals={"p50_third": 1.0},
)
