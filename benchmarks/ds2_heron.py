"""Heron's word count from one instance each (DS2, figures 1 and 6): every policy simulated, and DS2 on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from typing import Any

from benchmarks.ds2_heron_rates import LEAST, PUBLISHED
from benchmarks.ds2_heron_simulated import Outcome, heron_range, on_exact, on_executors, on_heron
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

SPARK = "ds2 on Spark"
NEEDED = sum(LEAST.values())


def on_spark(parameters: Parameters) -> Measurement:
    """Run it; see `ds2_heron_side`, which is imported only in the process that measures."""
    from benchmarks.ds2_heron_side import run as measured

    return measured(parameters)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Simulate every policy, and run DS2 on Spark."""
    metrics, ratios = list(published()), dict[str, float]()
    for name, simulated in SIMULATED.items():
        if not bench.only or name in bench.only:
            bench.progress.step(name)
            found = simulated()
            metrics += figures(name, found)
            ratios |= ratios_of(name, found)
    spark = Variant(name=SPARK, function="benchmarks.ds2_heron:on_spark", parameters=parameters)
    alone = replace(bench, only=frozenset())
    trials = (
        run_trials([spark], alone, rounds=1, timeout=parameters["timeout_seconds"], check=check)
        if not bench.only or SPARK in bench.only
        else None
    )
    series: tuple[Series, ...] = ()
    for made in trials.of(SPARK) if trials else ():
        found, met = real(made)
        metrics += figures(SPARK, found)
        metrics += [
            Metric(name="sentences over target", value=100 * met, unit="%", variant=SPARK),
            Metric(
                name="first whole timestep begins", value=begins_s(made), unit="s", variant=SPARK
            ),
            Metric(name="30 tasks cost", value=1e3 * made["fixed_s"], unit="ms", variant=SPARK),
            Metric(name="interval", value=made["interval_s"], unit="s", variant=SPARK),
        ]
        ratios |= {
            "bound_one_decision": 1 / found.decisions,
            "bound_instances": float(found.instances == LEAST),
            "bound_target": met,
        }
        series = (sentences(made),)
    return Result(
        parameters=parameters,
        metrics=(*metrics, *(trials.memory() if trials else ())),
        ratios=ratios,
        picture=Picture(
            title="Word count from one task each, on Spark",
            x_label="seconds",
            y_label="sentences per second",
            series=series,
        ),
        failures=trials.failures if trials else (),
    )


def published() -> Iterator[Metric]:
    """Yield the paper's figures."""
    for name, of in PUBLISHED.items():
        variant = f"{name}, published"
        yield Metric(name="decisions", value=of.decisions, unit="decisions", variant=variant)
        yield Metric(name="last decision", value=of.seconds, unit="s", variant=variant)
        for operator, number in of.instances.items():
            yield Metric(name=operator, value=number, unit="instances", variant=variant)
        over = sum(of.instances.values()) / NEEDED
        yield Metric(name="over the least", value=over, unit="x", variant=variant)


def _heron(name: str) -> Outcome:
    from rechannel.testing.scaling import policy_named

    return on_heron(policy_named(name))


@cache
def _range() -> Sequence[Outcome]:
    from rechannel.testing.scaling import policy_named

    return sorted(heron_range(policy_named("dhalion")), key=lambda each: each.cores)


def _exact() -> Outcome:
    from rechannel.testing.scaling import policy_named

    return on_exact(policy_named("dhalion"))


def _executors(name: str) -> Outcome:
    from rechannel.testing.scaling import policy_named

    return on_executors(policy_named(name))


SIMULATED: Mapping[str, Callable[[], Outcome]] = {
    **{name: partial(_heron, name) for name in ("ds2", "dhalion", "threshold", "flink")},
    "dhalion, least": lambda: _range()[0],
    "dhalion, most": lambda: _range()[-1],
    "dhalion, exact back-pressure": _exact,
    **{
        name: partial(_executors, name)
        for name in ("dynamic-allocation", "streaming-dynamic-allocation")
    },
}
"""What becomes of every policy, by the name of its variant."""


def figures(name: str, found: Outcome) -> Iterator[Metric]:
    """Yield the figures of one run."""
    yield Metric(name="decisions", value=found.decisions, unit="decisions", variant=name)
    yield Metric(name="last decision", value=found.last_s, unit="s", variant=name)
    for operator, number in found.instances.items():
        yield Metric(name=operator, value=number, unit="instances", variant=name)
    if not found.instances:
        yield Metric(name="executors", value=found.cores, unit="instances", variant=name)
        yield Metric(name="executors, most", value=found.most, unit="instances", variant=name)
    yield Metric(name="over the least", value=found.over, unit="x", variant=name)


def ratios_of(name: str, found: Outcome) -> dict[str, float]:
    """Return what is compared with the paper: DS2's bounds."""
    if name != "ds2":
        return {}
    return {
        "bound_simulated_decisions": 1 / max(1, found.decisions),
        "bound_simulated_instances": 1 / found.over,
    }


def real(made: Measurement) -> tuple[Outcome, float]:
    """Return what became of DS2 on Spark, and the share of the target that was processed from the next interval on.

    A decision is made when the last timestep is committed that it was made from. What counts then are the times between
    commits of timesteps that were not bounded.
    """
    changed = [each for each in made["decisions"] if each["outcome"] == "changed"]
    began_ms = made["timesteps"][0][1]
    committed_ms = {each[0]: each[2] for each in made["timesteps"]}
    whole = [each for each in made["timesteps"] if each[3] == made["every"]]
    seconds = (whole[-1][2] - whole[0][2]) / 1e3
    rate = made["every"] * (len(whole) - 1) / seconds
    instances = {name: made["tasks"][name] for name in LEAST}
    cores = float(sum(instances.values()))
    found = Outcome(
        decisions=len(changed),
        last_s=(committed_ms[changed[-1]["timestep"]] - began_ms) / 1e3,
        instances=instances,
        cores=cores,
        most=cores,
    )
    return found, rate / made["rate"]


def begins_s(made: Measurement) -> float:
    """Return when the first timestep began that was not bounded, in seconds from the beginning of the first."""
    steps = made["timesteps"]
    first_ms: float = next(each[1] for each in steps if each[3] == made["every"])
    return (first_ms - float(steps[0][1])) / 1e3


def sentences(made: Measurement) -> Series:
    """Return sentences per second over time, from commit to commit."""
    steps: list[Any] = made["timesteps"]
    began_ms = steps[0][1]
    x, y = [], []
    for before, after in pairwise(steps):
        if after[2] > before[2]:
            x.append((after[2] - began_ms) / 1e3)
            y.append(1e3 * after[3] / (after[2] - before[2]))
    return Series(label=SPARK, x=tuple(x), y=tuple(y))


def check(variant: Variant, made: Measurement) -> None:
    """Raise ValueError for a run in which nothing was decided, or that was over before the change was there."""
    outcomes = [each["outcome"] for each in made["decisions"]]
    whole = [each for each in made["timesteps"] if each[3] == made["every"]]
    if "changed" not in outcomes or len(whole) < 2:
        msg = f"{variant.name}: decisions {outcomes}, {len(whole)} whole timesteps"
        raise ValueError(msg)


BENCHMARK = Benchmark(
    name="ds2-heron",
    purpose="Heron's word count from one instance each: DS2 on Spark, and every policy simulated",
    defaults={
        "scale": 0.01,
        "fixed_share": 0.04,
        "interval_s": [9.6, 60.0],
        "measured_timesteps": 12,
        "first_sentences": 80,
        "timesteps": 7,
        "cores": 44,
        "tasks": 1,
        "durability": "process",
        "driver_memory": "2g",
        "timeout_seconds": 1800,
    },
    quick={"interval_s": [4.8, 4.8], "measured_timesteps": 2, "timesteps": 3},
    run=run,
    goals={
        "bound_one_decision": 1.0,
        "bound_instances": 1.0,
        "bound_target": 0.99,
        "bound_simulated_decisions": 1.0,
        "bound_simulated_instances": 1.0,
    },
)
