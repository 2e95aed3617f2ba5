"""What the files of a dataflow say that it needs: values, their JSON, and their sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAdvice:
    """What one operator needs."""

    name: str
    """With the id, if several operators have the name."""
    instances: int
    """That it had."""
    target: float
    """Records per second that will reach it once all operators keep up."""
    rate: float | None
    """Records per second that one instance can process: the true processing rate; None = not known."""
    exact: float
    """Instances as a real number, before the factor, the threshold and rounding."""
    advised: int
    """Instances that it needs."""
    low: int
    """Least that an epoch advises."""
    high: int
    """Most that an epoch advises."""
    times: float
    """By what the exact number was multiplied: 1 + factor, and the ratio of the sources if the epoch was adjusted."""
    reports: int
    """Instances whose rates are known."""
    known: bool
    """Whether its rates and those of everything upstream were measured."""

    @property
    def sentence(self) -> str:
        """What was measured, and what follows from it."""
        change = (
            f"keep {self.advised}"
            if self.advised == self.instances
            else f"{self.advised} instead of {self.instances}"
        )
        if self.rate is None:
            return f"{self.name}: no rate of processing is known; {change}."
        least = "" if self.known else "at least "
        times = "" if self.times == 1 else f", times {self.times:.2f}"
        return (
            f"{self.name}: {least}{self.target:,.0f} records per second will reach it, and one instance can process"
            f" {self.rate:,.0f}: {least}{self.exact:.2f} instances{times}; {change}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochAdvice:
    """What one epoch says."""

    epoch: int
    operators: Mapping[str, OperatorAdvice]
    """By id, without sources, in topological order."""
    behind: float | None
    """How many times more the sources should emit than they were seen to, the largest of all; None = not known."""
    adjusted: bool
    """Whether the numbers were multiplied by it: it is above the threshold, and no operator lacked instances."""
    workers: int | None = None
    """Of Timely: the workers, which run every operator. None elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingAdvice:
    """What all epochs say: of every operator, the median."""

    title: str
    operators: Mapping[str, OperatorAdvice]
    """By id, without sources, in topological order: the evidence is that of the median epoch."""
    epochs: tuple[EpochAdvice, ...]
    workers: int | None = None
    """Of Timely: the workers, the median of epochs. None elsewhere."""
    present_workers: int | None = None
    """Of Timely: the workers that there were."""
    notes: tuple[str, ...] = ()
    """What is missing in the files, and what that means."""

    @property
    def parallelism(self) -> dict[str, int]:
        """The instances that are advised, by id of the operator."""
        return {key: each.advised for key, each in self.operators.items()}


def as_record(made: ScalingAdvice) -> dict[str, Any]:
    """Return everything as JSON values."""
    return {
        "kind": "ds2",
        "title": made.title,
        "parallelism": made.parallelism,
        "workers": made.workers,
        "present_workers": made.present_workers,
        "operators": {
            key: {**asdict(each), "sentence": each.sentence} for key, each in made.operators.items()
        },
        "epochs": [asdict(each) for each in made.epochs],
        "notes": list(made.notes),
    }
