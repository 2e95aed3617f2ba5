"""DS2's figure 7 on Spark: Flink's word count scales up for 2 M lines per second, and down for 1 M.

Over slots that wait, at a share of the rates; see `ds2_nexmark`. The least tasks for the first rate are those with
which DS2 ends on Flink, and about half of them are the least for the second rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from benchmarks.ds2_judge import KEPT, fits, least_tasks
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

NAME = "ds2 on Spark"
FLINK = "ds2 on Flink, published"
FLATMAP, COUNT = "lines", "count"
"""Stages: the tasks that read lines also split them."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """What the paper has."""

    first: Mapping[str, int]
    """Instances for the first rate."""
    second: Mapping[str, int]
    steps: tuple[int, int]
    """To each."""
    seconds: tuple[float, float]
    """From the beginning, and from the change of the rate, until the last step."""


PUBLISHED = Published(
    first={FLATMAP: 19, COUNT: 11},
    second={FLATMAP: 7, COUNT: 5},
    steps=(2, 2),
    seconds=(150.0, 100.0),
)


def on_spark(parameters: Parameters) -> Measurement:
    """Run it; see `ds2_flink_side`, which is imported only in the process that measures."""
    from benchmarks.ds2_flink_side import run as measured

    return measured(parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """What became of one rate."""

    steps: int
    tasks: Mapping[str, int]
    settled_s: float
    """From the beginning of the phase until the first timestep under the last plan has ended."""
    rate: float
    """Lines per second from then on, over those that arrived meanwhile."""


def phase(timesteps: Sequence[Mapping[str, Any]], plan: Mapping[str, int], rate: float) -> Phase:
    """Return what became of a rate. timesteps: those of the phase. plan: tasks at its beginning.

    Raises ValueError for fewer than two timesteps under the last plan.
    """
    plans = [plan, *(each["tasks"] for each in timesteps)]
    changed = [n for n, (a, b) in enumerate(pairwise(plans)) if a != b]
    under = timesteps[changed[-1] if changed else 0 :]
    if len(under) < 2:
        raise ValueError(f"{len(under)} timesteps ran under the last plan, too few to judge it")
    seconds = (under[-1]["done_ms"] - under[0]["done_ms"]) / 1e3
    return Phase(
        steps=len(changed),
        tasks=plans[-1],
        settled_s=(under[0]["done_ms"] - timesteps[0]["looked_ms"]) / 1e3,
        rate=sum(each["rows"] for each in under[1:]) / seconds / rate,
    )


def phases(made: Measurement, parameters: Parameters) -> tuple[Phase, Phase]:
    """Return what became of both rates. Raises ValueError for a run that was too short."""
    steps = made["timesteps"]
    until_ms = steps[0]["looked_ms"] + 1e3 * parameters["after_s"]
    first = [each for each in steps if each["looked_ms"] < until_ms]
    second = [each for each in steps if each["looked_ms"] >= until_ms]
    rate = made["rate"]
    up = phase(first, parameters["starts"], rate)
    return up, phase(second, up.tasks, rate * parameters["then"])


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Run it once."""
    variant = Variant(name=NAME, function="benchmarks.ds2_flink:on_spark", parameters=parameters)
    trials = run_trials(
        [variant], bench, rounds=1, timeout=parameters["timeout_seconds"], check=check
    )
    metrics, ratios, series = list(published()), dict[str, float](), tuple[Series, ...]()
    for made in trials.of(NAME):
        found = phases(made, parameters)
        wanted = [least(made, share) for share in (1.0, parameters["then"])]
        metrics += [m for when, one in zip(WHEN, found, strict=True) for m in figures(when, one)]
        each = [(one, fewest) for one, fewest in zip(found, wanted, strict=True)]
        ratios = {
            "bound_one_step": sum(one.steps == 1 for one in found) / 2,
            "bound_least_tasks": sum(
                fits(one.tasks[name], fewest[name]) for one, fewest in each for name in fewest
            )
            / 4,
            "bound_rate": sum(one.rate >= KEPT for one in found) / 2,
        }
        series = drawn(made)
    return Result(
        parameters=parameters,
        metrics=(*metrics, *trials.memory()),
        ratios=ratios,
        picture=Picture(
            title="Word count: 2 M lines per second, then 1 M, scaled",
            x_label="seconds",
            y_label="tasks",
            series=series,
        ),
        failures=trials.failures,
    )


WHEN = ("up", "down")


def least(made: Measurement, share: float) -> dict[str, int]:
    """Return the least tasks for a share of the rate, by the nominal rates of slots."""
    return {name: least_tasks(share * made["rate"], slot) for name, slot in made["slots"].items()}


def figures(when: str, one: Phase) -> Iterator[Metric]:
    """Yield the figures of one rate."""
    yield Metric(name=f"steps {when}", value=one.steps, unit="steps", variant=NAME)
    yield Metric(name=f"settled {when}", value=one.settled_s, unit="s", variant=NAME)
    for name in (FLATMAP, COUNT):
        yield Metric(name=f"{name} {when}", value=one.tasks[name], unit="tasks", variant=NAME)
    yield Metric(name=f"rate kept {when}", value=100 * one.rate, unit="%", variant=NAME)


def published() -> Iterator[Metric]:
    """Yield the paper's figures."""
    ends = (PUBLISHED.first, PUBLISHED.second)
    for when, steps, seconds, tasks in zip(
        WHEN, PUBLISHED.steps, PUBLISHED.seconds, ends, strict=True
    ):
        yield Metric(name=f"steps {when}", value=steps, unit="steps", variant=FLINK)
        yield Metric(name=f"settled {when}", value=seconds, unit="s", variant=FLINK)
        for name in (FLATMAP, COUNT):
            yield Metric(name=f"{name} {when}", value=tasks[name], unit="tasks", variant=FLINK)


def drawn(made: Measurement) -> tuple[Series, ...]:
    """Return the tasks of both operators over time."""
    steps: list[Any] = made["timesteps"]
    x = tuple((each["done_ms"] - steps[0]["looked_ms"]) / 1e3 for each in steps)
    return tuple(
        Series(label=name, x=x, y=tuple(float(each["tasks"][name]) for each in steps))
        for name in (FLATMAP, COUNT)
    )


def check(variant: Variant, made: Measurement) -> None:
    """Raise ValueError for a run that was too short."""
    phases(made, variant.parameters)


BENCHMARK = Benchmark(
    name="ds2-flink",
    purpose="a word count that scales up for 2 M lines per second and down for 1 M, beside DS2 on Flink",
    defaults={
        "rate": 2_000_000,
        "scale": 0.005,
        "then": 0.5,
        "after_s": 100.0,
        "seconds": 180.0,
        "starts": {FLATMAP: 10, COUNT: 5},
        "short": 0.4,
        "own": 0.15,
        "interval_ms": 5_000,
        "slack": 0.02,
        "scaled": True,
        "policy": "ds2",
        "steering": {
            "interval_s": 5.0,
            "warm_up_s": 5.0,
            "down_delay_s": 0.0,
            "ignore_down": 1,
            "roll_back": False,
        },
        "bins": 1_680,
        "cores": 44,
        "tasks": 1,
        "durability": "process",
        "driver_memory": "2g",
        "timeout_seconds": 900,
    },
    quick={"after_s": 50.0, "seconds": 90.0, "interval_ms": 3_000},
    run=run,
    goals={"bound_one_step": 1.0, "bound_least_tasks": 1.0, "bound_rate": 1.0},
)
