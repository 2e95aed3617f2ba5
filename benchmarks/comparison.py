"""From the batch times of several variants to one result: medians, ratios, a curve per variant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.harness import (
    Measurement,
    Metric,
    Parameters,
    Picture,
    Result,
    Series,
    Variant,
    Workbench,
)
from benchmarks.inputs import write_keyed_batches
from benchmarks.measurements import steady, steady_seconds
from benchmarks.trials import Trials, phase_metrics, run_trials

MEDIAN = "batch, median"
MEAN = "batch, mean"
P99 = "batch, p99"
SLOWEST = "batch, slowest"
PROCESSOR = "processor time of a batch, mean"
LATENCY_MEDIAN = "latency of a timestep, median"
LATENCY_P99 = "latency of a timestep, p99"

Ratios = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """``factor * of(over) / of(under)``: how much longer a batch takes in `over`.

    of: the median of the batches, or their mean, which is the time that all of them took. Only the
    mean compares batches that overlap: those end in pairs, at distances that alternate. Or the mean
    of their processor time.
    """

    name: str
    over: str
    under: str
    factor: float = 1.0
    of: str = MEDIAN


def compare_batches(
    parameters: Parameters,
    variants: Sequence[Variant],
    ratios: Sequence[Ratio],
    bench: Workbench,
    *,
    title: str,
    overall: Callable[[Ratios], Ratios] | None = None,
) -> Result:
    """Run `variants` for ``rounds`` rounds; each returns a `BatchMeasurement`.

    The first ``warmup`` batches of each run, as its variant's parameters say, are left out. overall: further ratios out
    of these. Where it is given, all ratios are the medians of those of single rounds.
    """
    trials = run_trials(
        variants,
        bench,
        rounds=parameters["rounds"],
        timeout=parameters["timeout_seconds"],
        check=check_batches,
    )
    warmups = {variant.name: variant.parameters["warmup"] for variant in variants}
    metrics = [m for name in trials.variants for m in batch_metrics(name, trials, warmups[name])]
    rounds = {ratio.name: by_round(ratio, trials, warmups) for ratio in ratios}
    spread = [m for r in ratios for m in interval(r.name, rounds[r.name], variant=r.under)]
    made = ratios_of(metrics, ratios)
    if overall is not None:
        made = settled(rounds, overall)
        spread += overall_intervals(rounds, overall)
    return Result(
        parameters=parameters,
        metrics=(*metrics, *spread, *trials.memory()),
        ratios=made,
        picture=batch_picture(title, trials),
        failures=trials.failures,
    )


def check_batches(variant: Variant, run: Measurement) -> None:
    """Refuse a run that did not take its input batch by batch: its times would mean nothing."""
    expected = variant.parameters["batches"]
    if not len(run["seconds"]) == len(run["rows"]) == expected:
        raise ValueError(
            f"{len(run['seconds'])} times and {len(run['rows'])} row counts for {expected} batches"
        )
    steady_seconds([run], variant.parameters["warmup"])
    phase_metrics(variant.name, [run])


def batch_metrics(variant: str, trials: Trials, warmup: int) -> list[Metric]:
    """Median, slowest batch and phases, and rows per second, of the steady state."""
    runs = trials.of(variant)
    seconds = steady_seconds(runs, warmup)
    rows = sum(sum(run["rows"][warmup:]) for run in runs)
    figures = (
        (MEDIAN, float(np.median(seconds)), "s"),
        (MEAN, float(seconds.mean()), "s"),
        (P99, float(np.percentile(seconds, 99)), "s"),
        (SLOWEST, float(seconds.max()), "s"),
        # Not everybody knows how many rows there were.
        *([("throughput", rows / float(seconds.sum()), "rows/s")] if rows else []),
        ("batches counted", float(len(seconds)), "batches"),
    )
    return [
        *(
            Metric(name=name, value=value, unit=unit, variant=variant)
            for name, value, unit in figures
        ),
        *processor_metrics(variant, runs, warmup),
        *latency_metrics(variant, runs, warmup),
        *phase_metrics(variant, runs, warmup),
    ]


def processor_metrics(variant: str, runs: Sequence[Measurement], warmup: int) -> list[Metric]:
    """Seconds of all processes together, of the steady state; none if a run does not tell."""
    if not all("processor" in run for run in runs):
        return []
    value = float(steady(runs, warmup, "processor").mean())
    return [Metric(name=PROCESSOR, value=value, unit="s", variant=variant)]


def latency_metrics(variant: str, runs: Sequence[Measurement], warmup: int) -> list[Metric]:
    """From the beginning of a timestep to its commit, of the steady state; None if not reported."""
    found = [latency for run in runs for latency in run.get("latencies", [])[warmup:]]
    if not found:
        return []
    figures = {LATENCY_MEDIAN: np.median(found), LATENCY_P99: np.percentile(found, 99)}
    return [
        Metric(name=name, value=float(value), unit="s", variant=variant)
        for name, value in figures.items()
    ]


def by_round(ratio: Ratio, trials: Trials, warmups: Mapping[str, int]) -> list[float]:
    """The ratios of single rounds; none where a side was not measured in all of them."""
    if not {ratio.over, ratio.under} <= set(trials.variants):
        return []
    over, under = trials.of(ratio.over), trials.of(ratio.under)
    settle = np.median if ratio.of == MEDIAN else np.mean
    figure = "processor" if ratio.of == PROCESSOR else "seconds"
    return [
        ratio.factor
        * float(settle(steady([slow], warmups[ratio.over], figure)))
        / float(settle(steady([fast], warmups[ratio.under], figure)))
        for slow, fast in zip(over, under, strict=True)
    ]


def interval(name: str, found: Sequence[float], *, variant: str) -> list[Metric]:
    """The least, the middle and the largest of the ratios of single rounds."""
    if not found:
        return []
    figures = {"least": min(found), "median": float(np.median(found)), "most": max(found)}
    return [
        Metric(name=f"{name} by round, {which}", value=value, unit="x", variant=variant)
        for which, value in figures.items()
    ]


def settled(
    rounds: Mapping[str, Sequence[float]], overall: Callable[[Ratios], Ratios]
) -> dict[str, float]:
    """The median of every ratio over its rounds, and what `overall` makes of those."""
    medians = {name: float(np.median(found)) for name, found in rounds.items() if found}
    return {**medians, **overall(medians)}


def overall_intervals(
    rounds: Mapping[str, Sequence[float]], overall: Callable[[Ratios], Ratios]
) -> list[Metric]:
    """What `overall` makes of the ratios of single rounds: least, middle and largest."""
    measured = {name: found for name, found in rounds.items() if found}
    each = [
        overall(dict(zip(measured, found, strict=True)))
        for found in zip(*measured.values(), strict=True)
    ]
    names = each[0] if each else {}
    return [
        metric
        for name in names
        for metric in interval(name, [one[name] for one in each], variant="overall")
    ]


def by_variant(metrics: Sequence[Metric], name: str) -> dict[str, float]:
    """The value of one metric for every variant that has it."""
    return {metric.variant: metric.value for metric in metrics if metric.name == name}


def ratios_of(metrics: Sequence[Metric], ratios: Sequence[Ratio]) -> dict[str, float]:
    """The ratios whose two variants were both measured."""
    out: dict[str, float] = {}
    for ratio in ratios:
        figures = by_variant(metrics, ratio.of)
        if ratio.over in figures and ratio.under in figures:
            out[ratio.name] = ratio.factor * figures[ratio.over] / figures[ratio.under]
    return out


def batch_picture(title: str, trials: Trials) -> Picture:
    """Seconds per batch over the batches of each variant's first run, warm-up included."""
    return Picture(
        title=title,
        x_label="batch",
        y_label="seconds per batch",
        series=tuple(batch_series(name, trials.of(name)[0]) for name in trials.variants),
        log_y=True,
    )


def batch_series(variant: str, run: Measurement) -> Series:
    """The batch times of one run as a curve."""
    seconds = tuple(float(s) for s in run["seconds"])
    return Series(label=variant, x=tuple(float(i + 1) for i in range(len(seconds))), y=seconds)


def keyed_input(
    parameters: Parameters, bench: Workbench, *, name: str, rows: int, keys: int, batches: int
) -> str:
    """Write the keyed input `name`, in ``files`` files per batch; returns its directory."""
    bench.progress.step(f"writing {batches} batches of {rows:,} rows over {keys:,} keys")
    directory = Path(bench.scratch) / "input" / name
    write_keyed_batches(
        directory,
        rows=rows,
        keys=keys,
        batches=batches,
        files=parameters["files"],
        seed=parameters["seed"],
    )
    return str(directory)
