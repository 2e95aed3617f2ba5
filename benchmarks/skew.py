"""Skew, and operators with too few tasks: how far what is hot stands out on the critical path.

As SnailTrail has measured both (NSDI 2018, figures 10 and 11), on Structured Streaming:

- `skew_<percent>`: a keyed word count, four tasks, with that share of the load on one word;
- `instances_<a>_<b>_<c>`: lines, words out of lines, and counts of words, each on that many tasks. Both functions wait
  for as long per batch, as a service would let them wait, so it does not matter how many cores the machine has.
"""

from __future__ import annotations

from statistics import median

from benchmarks.diagnosis import DEFAULTS, run_cases
from benchmarks.harness import (
    Benchmark,
    Metric,
    Parameters,
    Picture,
    Result,
    Series,
    Workbench,
)

SKEWS = (30, 50, 80)
SEPARATION = 2.5
"""Published: CP of the hottest worker over the second, in the median of the windows."""
INSTANCES = ((4, 2, 4), (1, 2, 4), (4, 4, 4))
"""Published: CP of words over that of counts 2.2, 2.3, and 1.1 once both have four."""
NAMED = "MapInPandas split"
"""The operator that makes words out of lines."""


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Run all cases."""
    cases: dict[str, Parameters] = {f"skew_{share}": {"share": share} for share in SKEWS}
    cases |= {f"instances_{a}_{b}_{c}": {"instances": (a, b, c)} for a, b, c in INSTANCES}
    trials = run_cases(parameters, bench, cases)
    metrics: list[Metric] = []
    ratios: dict[str, float] = {}
    for name in trials.variants:
        found = trials.of(name)
        for text in found[0]["text"][:2]:
            bench.progress.step(f"{name}: {text}")
        if name.startswith("skew"):
            what, pairs = "hottest over second", [(m["separation"], m["usual"]) for m in found]
        else:
            what, pairs = "words over counts", [shares(m["operators"]) for m in found]
        critical, usual = (median(column) for column in zip(*pairs, strict=True))
        metrics += [
            Metric(name=f"{what}, CP", value=critical, unit="x", variant=name),
            Metric(name=f"{what}, usual profile", value=usual, unit="x", variant=name),
        ]
        if name.startswith("skew"):
            ratios[f"bound_{name}"] = critical / SEPARATION
        elif name != "instances_4_4_4":
            named = sum(any(NAMED in text for text in each["text"]) for each in found)
            ratios[f"bound_{name}"] = named / len(found)
    return Result(
        parameters=parameters,
        metrics=tuple(metrics),
        ratios=ratios,
        picture=picture(metrics),
        failures=trials.failures,
    )


def shares(operators: list[tuple[str, float, float, int]]) -> tuple[float, float]:
    """CP of words over that of counts, and the same of the usual profile."""
    (words,) = (each for each in operators if NAMED in each[0])
    (counts,) = (each for each in operators if NAMED not in each[0])
    return words[1] / counts[1], words[2] / counts[2]


def picture(metrics: list[Metric]) -> Picture:
    """How far the hottest worker stands out, by skew."""
    return Picture(
        title="What stands out",
        x_label="load on one word, %",
        y_label="hottest worker over the second",
        series=tuple(
            Series(
                label=label,
                x=tuple(float(str(each.variant).removeprefix("skew_")) for each in chosen),
                y=tuple(each.value for each in chosen),
            )
            for label in ("CP", "usual profile")
            for chosen in [[m for m in metrics if m.name == f"hottest over second, {label}"]]
        ),
    )


BENCHMARK = Benchmark(
    name="skew",
    purpose="load on one key, and operators with too few tasks: what stands out in a profile",
    defaults=DEFAULTS,
    quick={"seconds": 15, "warmup": 10},
    run=run,
    goals={
        **{f"bound_skew_{share}": 1.0 for share in SKEWS},
        "bound_instances_4_2_4": 1.0,
        "bound_instances_1_2_4": 1.0,
    },
)
