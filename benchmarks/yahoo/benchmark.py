"""The Yahoo streaming benchmark: from the end of a window to its last update, next to Structured Streaming."""

from __future__ import annotations

from typing import Any

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
from benchmarks.trials import Trials, phase_metrics, run_trials
from benchmarks.yahoo.events import SKEW_MS
from benchmarks.yahoo.figures import Floats, counts_in, counts_of, differing, latencies
from benchmarks.yahoo.trial import events_of

OURS = "rechannel"
HIGHEST = "max"
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "max": 100.0}
RATE = "highest rate sustained"
CURVE = np.linspace(0.0, 100.0, 401)
SEARCH = {
    "do": True,
    "first": 50_000,
    "ratio": 1.15,
    "tries": 2,
    "warmup_seconds": 8,
    "seconds": 16,
    "growth": 0.05,
    "bearable_ms": 5_000,
    "share": 0.9,
}
"""first: events per second of the first run. ratio: of the lowest rate that is too high to the highest that is not, at
the end. growth, bearable_ms: see `figures.sustained`. share: of what is found, at which latency is measured.
"""


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Every rate on every side, then the highest rate that each side sustains."""
    trials = run_trials(
        variants(parameters),
        bench,
        rounds=parameters["rounds"],
        timeout=parameters["timeout_seconds"],
        check=check,
    )
    window_ms = parameters["window_seconds"] * 1_000
    metrics = [m for name in trials.variants for m in figures(name, trials, window_ms)]
    return Result(
        parameters=parameters,
        metrics=(*metrics, *trials.memory()),
        ratios=ratios_of(metrics),
        picture=picture(trials, window_ms),
        failures=trials.failures,
    )


def variants(parameters: Parameters) -> list[Variant]:
    """Both sides at every rate; rate 0 is the highest one that the side sustains."""
    delay = SKEW_MS if parameters["skewed"] else 0
    common: dict[str, Any] = {**parameters, "delay_ms": delay}
    rates = {named(rate): rate for rate in parameters["rates"]}
    if parameters["search"]["do"]:
        rates[HIGHEST] = 0
    out: list[Variant] = []
    for name, rate in rates.items():
        own = {**common, "rate": rate}
        out.append(
            Variant(name=f"{OURS}_{name}", function="benchmarks.yahoo.side:run", parameters=own)
        )
        for store in parameters["stores"]:
            peer = {**own, "store": store}
            function = "benchmarks.peers.yahoo:run"
            out.append(Variant(name=f"{store}_{name}", function=function, parameters=peer))
    return out


def named(rate: int) -> str:
    """Short name of a rate."""
    return f"{rate // 1_000}k" if rate % 1_000 == 0 else str(rate)


def check(variant: Variant, run: Measurement) -> None:
    """Refuse a run whose counts are not those of the events themselves."""
    parameters, window_ms = variant.parameters, variant.parameters["window_seconds"] * 1_000
    events = events_of(parameters, start_ns=run["start_ns"], rate=run["rate"])
    expected = counts_in(events.counts(run["rows"], window_ms), run["end_ms"], window_ms)
    wrong = differing(counts_in(counts_of(run), run["end_ms"], window_ms), expected)
    if wrong:
        raise ValueError(wrong)
    latencies(run, window_ms)
    phase_metrics(variant.name, [run])


def figures(variant: str, trials: Trials, window_ms: int) -> list[Metric]:
    """Latencies of all windows of all runs, what batches were like, and the rate that was found."""
    runs = trials.of(variant)
    updated = np.concatenate([latencies(run, window_ms) for run in runs])
    settled = np.concatenate([latencies(run, window_ms, committed=True) for run in runs])
    batches = np.concatenate([np.asarray(run["batches"], dtype=np.int64) for run in runs])
    found = [
        *((f"last update, {name}", percentile(updated, name), "ms") for name in PERCENTILES),
        *((f"and committed, {name}", percentile(settled, name), "ms") for name in PERCENTILES),
        ("windows", float(len(updated)), "windows"),
        ("rows per batch", float(np.median(batches[:, 1] - batches[:, 0])), "rows"),
        ("rate", float(np.median([run["rate"] for run in runs])), "rows/s"),
    ]
    tried = [max(rate for rate, well in run["tried"] if well) for run in runs if run.get("tried")]
    if tried:
        found.append((RATE, float(np.median(tried)), "rows/s"))
    return [
        *(Metric(name=n, value=value, unit=unit, variant=variant) for n, value, unit in found),
        *phase_metrics(variant, runs),
    ]


def percentile(values: Floats, name: str) -> float:
    """A percentile by its name."""
    return float(np.percentile(values, PERCENTILES[name]))


def ratios_of(metrics: list[Metric]) -> dict[str, float]:
    """The best of the peer's stores over Rechannel, and of rates the other way round."""
    value = {(metric.variant, metric.name): metric.value for metric in metrics}
    out: dict[str, float] = {}
    for name in dict.fromkeys(v.partition("_")[2] for v, _ in value):
        for percentage in PERCENTILES:
            figure = f"last update, {percentage}"
            peers = [at for at in peers_of(value, name, figure) if at > 0]
            ours = value.get((f"{OURS}_{name}", figure), 0.0)
            if peers and ours > 0:
                out[f"{percentage}_{name}"] = min(peers) / ours
    rates = peers_of(value, HIGHEST, RATE)
    if rates and (f"{OURS}_{HIGHEST}", RATE) in value:
        out["rate"] = value[f"{OURS}_{HIGHEST}", RATE] / max(rates)
    return out


def peers_of(value: dict[tuple[str, str], float], name: str, figure: str) -> list[float]:
    """A figure of every store of the peer, at one rate."""
    ours = f"{OURS}_{name}"
    return [
        at
        for (variant, metric), at in value.items()
        if metric == figure and variant != ours and variant.partition("_")[2] == name
    ]


def picture(trials: Trials, window_ms: int) -> Picture:
    """The distribution of latencies of every variant."""
    curves = []
    for name in trials.variants:
        values = np.concatenate([latencies(run, window_ms) for run in trials.of(name)])
        x = np.maximum(np.percentile(values, CURVE), 1.0)
        curves.append(Series(label=name, x=tuple(x.tolist()), y=tuple((CURVE / 100).tolist())))
    return Picture(
        title="Yahoo streaming benchmark: from the end of a window to the last update of a count",
        x_label="milliseconds",
        y_label="share of windows",
        series=tuple(curves),
        log_x=True,
    )


BENCHMARK = Benchmark(
    name="yahoo",
    purpose="views of advertisements per campaign and 10 s: from the end of a window to its last update",
    defaults={
        "rates": [10_000, 50_000],
        "campaigns": 100,
        "ads": 10,
        "skewed": False,
        "window_seconds": 10,
        "stores": ["hdfs"],
        "partitions": 2,
        "tasks": 1,
        "cores": 2,
        "interval_ms": 0,
        "publish_backlog": 1,
        "warmup_seconds": 20,
        "seconds": 100,
        "search": SEARCH,
        "rounds": 1,
        "durability": "process",
        "driver_memory": "4g",
        "timeout_seconds": 1_800,
    },
    quick={
        "rates": [10_000],
        "window_seconds": 2,
        "warmup_seconds": 5,
        "seconds": 6,
        "search": {**SEARCH, "do": False},
    },
    run=run,
)
