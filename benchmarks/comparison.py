"""From the batch times of several variants to one result: medians, ratios, a curve per variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from benchmarks.measurements import steady_seconds
from benchmarks.trials import Trials, phase_metrics, run_trials

MEDIAN = "batch, median"
MEAN = "batch, mean"
P99 = "batch, p99"
SLOWEST = "batch, slowest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """``factor * of(over) / of(under)``: how much longer a batch takes in `over`.

    of: the median of the batches, or their mean, which is the time that all of them took. Only the
    mean compares batches that overlap: those end in pairs, at distances that alternate.
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
) -> Result:
    """Run `variants` for ``rounds`` rounds; each returns a `BatchMeasurement`.

    The first ``warmup`` batches of each run, as its variant's parameters say, are left out.
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
    spread = [m for ratio in ratios for m in by_round(ratio, trials, warmups)]
    return Result(
        parameters=parameters,
        metrics=(*metrics, *spread, *trials.memory()),
        ratios=ratios_of(metrics, ratios),
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
        *phase_metrics(variant, runs, warmup),
    ]


def by_round(ratio: Ratio, trials: Trials, warmups: Mapping[str, int]) -> list[Metric]:
    """The least, the middle and the largest of the ratios of single rounds; none where a side was not measured."""
    over, under = trials.of(ratio.over), trials.of(ratio.under)
    if not over or len(over) != len(under):
        return []
    settle = np.median if ratio.of == MEDIAN else np.mean
    found = [
        ratio.factor
        * float(settle(steady_seconds([slow], warmups[ratio.over])))
        / float(settle(steady_seconds([fast], warmups[ratio.under])))
        for slow, fast in zip(over, under, strict=True)
    ]
    figures = {"least": min(found), "median": float(np.median(found)), "most": max(found)}
    return [
        Metric(name=f"{ratio.name} by round, {name}", value=value, unit="x", variant=ratio.under)
        for name, value in figures.items()
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
