"""All runs of a benchmark's variants, alternated so that a drifting machine treats all alike."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.harness import (
    Failure,
    Measurement,
    Metric,
    UnknownNameError,
    Variant,
    Workbench,
)
from benchmarks.process import Run, run_variant

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """What all runs left behind, in the order in which they ran."""

    runs: tuple[Run, ...]

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Every failed run."""
        return tuple(run.failure for run in self.runs if run.failure is not None)

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants all of whose runs succeeded, in the order of their first run."""
        failed = {failure.variant for failure in self.failures}
        return tuple(dict.fromkeys(r.variant for r in self.runs if r.variant not in failed))

    def of(self, variant: str) -> list[Measurement]:
        """The measurements of one variant, one per run."""
        return [
            run.measurement
            for run in self.runs
            if run.variant == variant and run.measurement is not None
        ]

    def memory(self) -> tuple[Metric, ...]:
        """The peak memory of every variant by role, over all its runs."""
        peaks: dict[tuple[str, str], int] = {}
        for run in self.runs:
            for role, held in run.memory.items():
                if run.variant in self.variants:
                    peaks[run.variant, role] = max(held, peaks.get((run.variant, role), 0))
        return tuple(
            Metric(name=f"memory {role}", value=held / MEGABYTE, unit="MB", variant=variant)
            for (variant, role), held in peaks.items()
        )


def phase_metrics(variant: str, runs: Sequence[Measurement], warmup: int = 0) -> list[Metric]:
    """Where the time goes: the median in ms of each phase of a batch over `runs`.

    The first `warmup` batches of each run are left out; a run need not tell its phases.
    """
    found: dict[str, list[float]] = {}
    for run in runs:
        for name, milliseconds in run.get("phases", {}).items():
            found.setdefault(name, []).extend(milliseconds[warmup:])
    return [
        Metric(name=f"phase {name}", value=median(values), unit="ms", variant=variant)
        for name, values in found.items()
        if values
    ]


def run_trials(
    variants: Sequence[Variant],
    bench: Workbench,
    *,
    rounds: int,
    timeout: float,
    check: Callable[[Variant, Measurement], None],
) -> Trials:
    """Run A B A B ...: every variant once per round. A variant that failed is not tried again.

    `check` raises `ValueError`, `KeyError` or `TypeError` for a measurement that cannot be used; the
    run then counts as failed, and those of other variants are not lost. Raises `UnknownNameError`
    if the workbench asks for a variant that there is not.
    """
    chosen = chosen_from(variants, bench.only)
    runs: list[Run] = []
    failed: set[str] = set()
    for number, variant in schedule(chosen, rounds):
        if variant.name in failed:
            continue
        bench.progress.step(f"{variant.name}, round {number + 1} of {rounds}")
        directory = Path(bench.scratch) / "runs" / f"{variant.name}-{number}"
        run = checked(
            run_variant(variant, directory, timeout=timeout, detail=bench.progress.detail),
            variant,
            check,
        )
        remove(directory)
        if run.failure is not None:
            failed.add(variant.name)
            bench.progress.step(f"{variant.name} failed: {run.failure.reason}")
        runs.append(run)
    return Trials(runs=tuple(runs))


def chosen_from(variants: Sequence[Variant], only: frozenset[str]) -> list[Variant]:
    """The variants named in `only`, or all."""
    names = [variant.name for variant in variants]
    unknown = sorted(only - set(names))
    if unknown:
        raise UnknownNameError(f"no variant {unknown[0]!r}; known here: {', '.join(names)}")
    return [variant for variant in variants if not only or variant.name in only]


def checked(run: Run, variant: Variant, check: Callable[[Variant, Measurement], None]) -> Run:
    """The run, as a failed one if its measurement cannot be used."""
    if run.measurement is None:
        return run
    try:
        check(variant, run.measurement)
    except (ValueError, KeyError, TypeError) as error:
        reason = f"its measurement cannot be used: {type(error).__name__}: {error}"
        failure = Failure(variant=variant.name, reason=reason, stderr_tail="")
        return replace(run, measurement=None, failure=failure)
    return run


def schedule(variants: Sequence[Variant], rounds: int) -> list[tuple[int, Variant]]:
    """(round, variant) in the order in which to run them."""
    return [(number, variant) for number in range(rounds) for variant in variants]


def remove(directory: Path) -> None:
    """Free the disk before the next run; Spark's last threads may still write."""
    shutil.rmtree(directory, ignore_errors=True)
