"""Timesteps with state in a bucket, next to the local disk, and with 50 ms on the way to every request.

The server is versitygw on this machine (or the one that the environment names, with ``bucket``); a proxy in front of it
counts requests and adds the latency.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.harness import (
    Benchmark,
    Failure,
    Measurement,
    Metric,
    Parameters,
    Picture,
    Result,
    Series,
    Variant,
    Workbench,
)
from benchmarks.trials import phase_metrics, run_trials

LOCAL, BUCKET, FAR = "local disk", "bucket", "bucket, far"
LOADS: Mapping[str, Mapping[str, Any]] = {
    "latency": {"rows": None},
    "keyed-state": {"rate": None},
}
"""Loads: by the clock, and as fast as possible, each with what it takes away from the parameters."""


def run_rechannel(parameters: Parameters) -> Measurement:
    """The job, imported only in the process that measures it."""
    from benchmarks.object_store_side import run as run_side

    return run_side(parameters)


@contextmanager
def server(folder: Path) -> Iterator[Any]:
    """Return a proxy in front of a server, to which the environment leads for as long as the context lasts."""
    from tests.real.components.proxy import Proxy
    from tests.real.components.s3 import S3

    folder.mkdir(parents=True)
    made = S3(folder)
    made.start()
    proxy = Proxy(made.port)
    before = dict(os.environ)
    os.environ.update(made.environment(proxy.start()))
    try:
        yield proxy
    finally:
        os.environ.clear()
        os.environ.update(before)
        proxy.stop()
        made.kill()


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Run each load on each store, in turn."""
    found: dict[str, list[Measurement]] = {}
    requests: dict[str, list[float]] = {}
    failures: list[Failure] = []
    with server(Path(bench.scratch) / "server") as proxy:
        for number in range(parameters["rounds"]):
            for load in parameters["loads"]:
                for store in (LOCAL, BUCKET, FAR):
                    name = f"{load}, {store}"
                    proxy.faults.latency_s = parameters["latency_ms"] / 1e3 * (store == FAR)
                    before = proxy.did.total()
                    bucket = "" if store == LOCAL else f"s3://state/{number}"
                    own = {**parameters, **LOADS[load], "bucket": bucket}
                    trials = run_trials(
                        [Variant(name=name, function=SIDE, parameters=own)],
                        bench,
                        rounds=1,
                        timeout=parameters["timeout_seconds"],
                        check=check,
                    )
                    failures.extend(trials.failures)
                    for each in trials.of(name):
                        found.setdefault(name, []).append(each)
                        made = (proxy.did.total() - before) / each["timesteps"]
                        requests.setdefault(name, []).append(made)
    return Result(
        parameters=parameters,
        metrics=tuple(metric for name in found for metric in metrics_of(name, found, requests)),
        ratios=ratios_of(found, parameters),
        picture=picture_of(found),
        failures=tuple(failures),
    )


SIDE = "benchmarks.object_store:run_rechannel"


def check(variant: Variant, run: Measurement) -> None:
    """Refuse a run with too few timesteps."""
    if len(run["ms"]) < variant.parameters["timesteps"] // 2:
        raise ValueError(f"{len(run['ms'])} timesteps were seen")


def p50(runs: list[Measurement]) -> float:
    """Median ms of the timesteps of all runs."""
    return float(median(ms for run in runs for ms in run["ms"]))


def metrics_of(
    name: str, found: Mapping[str, list[Measurement]], requests: Mapping[str, list[float]]
) -> list[Metric]:
    """Times of timesteps, their phases, and requests per timestep (those of the start included)."""
    every = [ms for run in found[name] for ms in run["ms"]]
    return [
        Metric(name="p50", value=p50(found[name]), unit="ms", variant=name),
        Metric(name="p99", value=float(np.percentile(every, 99)), unit="ms", variant=name),
        Metric(name="requests", value=median(requests[name]), unit="per timestep", variant=name),
        *phase_metrics(name, found[name]),
    ]


def ratios_of(found: Mapping[str, list[Measurement]], parameters: Parameters) -> dict[str, float]:
    """Local disk over bucket, and 2.5 round trips over what the latency adds to a timestep."""
    out = {}
    for load in parameters["loads"]:
        local, near, far = (found.get(f"{load}, {store}") for store in (LOCAL, BUCKET, FAR))
        if local and near:
            out[f"{load}: local disk over bucket"] = p50(local) / p50(near)
        if near and far:
            trips = max(0.01, (p50(far) - p50(near)) / parameters["latency_ms"])
            out[f"bound_2.5_round_trips, {load}"] = 2.5 / trips
    return out


def picture_of(found: Mapping[str, list[Measurement]]) -> Picture:
    """Every timestep of the first run of each variant."""
    series = [
        Series(label=name, x=tuple(map(float, range(len(runs[0]["ms"])))), y=tuple(runs[0]["ms"]))
        for name, runs in found.items()
    ]
    return Picture(
        title="Timesteps with state on disk and in a bucket",
        x_label="timestep",
        y_label="milliseconds",
        series=tuple(series),
        log_y=True,
    )


BENCHMARK = Benchmark(
    name="object-store",
    purpose="timesteps with state in a bucket, beside the local disk, and with latency to it",
    defaults={
        "loads": ["latency", "keyed-state"],
        "rate": 1_000,
        "rows": 200_000,
        "keys": 50_000,
        "latency_ms": 50.0,
        "warmup": 30,
        "timesteps": 60,
        "in_flight": 1,
        "tasks": 2,
        "cores": 2,
        "rounds": 1,
        "durability": "process",
        "driver_memory": "2g",
        "timeout_seconds": 600,
    },
    quick={"loads": ["latency"], "warmup": 8, "timesteps": 10},
    run=run,
)
