"""Findings about data that is computed again: a cache that does not hold it, or no cache at all.

A task that finds its partition in the cache reports as input the bytes of what is cached; one that
does not find it reports what it did when the dataset was first computed. That is how partitions
that were lost, were evicted or never fitted are recognised, since a log does not say by default
which partitions are stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rechannel.profiling.diagnosis.case import Case, worth
from rechannel.profiling.diagnosis.words import duration, short
from rechannel.profiling.model.finding import Certainty, Evidence, Finding, Place
from rechannel.profiling.model.trace import MS
from rechannel.profiling.model.words import counted, percent
from rechannel.profiling.spark.application import Application, Stage, Stored
from rechannel.profiling.spark.busy import Floats
from rechannel.profiling.spark.rows import leaving
from rechannel.profiling.spark.stage_tasks import tasks_of
from rechannel.profiling.storage.blocks import Rows

MISSING = 0.1
"""Share of partitions that must have been computed again."""
TIMES = 3
"""SQL executions that must have computed the same before a cache is suggested."""
COSTLY = 0.1
"""Share of the run that repetitions must take before a cache is suggested."""
COMPARED = 1_000
"""Stages of a dataset that are compared at most, the longest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A stage that reads a dataset which is to be cached. Figures by task, in order of partitions."""

    stage: Stage
    ms: Floats
    size: Floats
    """Bytes of input."""


def computed_again(case: Case) -> Iterator[Finding]:
    """Find data that is computed more than once."""
    yield from cache_lost(case.app, case.run_ms)
    yield from not_cached(case.app, case.run_ms)


def cache_lost(app: Application, length: float) -> Iterator[Finding]:
    """Find datasets that are to be cached, and partitions of which were not in the cache.

    length: of the run, ms.
    """
    of: dict[int, list[tuple[Stage, Stored]]] = {}
    for stage in app.stages.values():
        if stage.stored and stage.submitted and not stage.failure:
            kept = max(stage.stored, key=lambda each: each.rdd)
            if stage.tasks == kept.partitions:
                of.setdefault(kept.rdd, []).append((stage, kept))
    for readings in of.values():
        readings.sort(key=lambda each: (each[0].submitted, each[0].number))
        if len(readings) > 1:
            yield from _lost(app, length, readings[0][1], [stage for stage, _ in readings])


def _lost(
    app: Application, length: float, stored: Stored, stages: Sequence[Stage]
) -> Iterator[Finding]:
    first = _reading(app, stages[0])
    longest = sorted(stages[1:], key=lambda each: each.submitted - each.completed)[:COMPARED]
    later = [known for stage in longest if (known := _reading(app, stage)) is not None]
    if first is None or not later:
        return
    missed = [each.size == first.size for each in later]
    hits = np.concatenate([each.ms[~miss] for each, miss in zip(later, missed, strict=True)])
    usual = float(np.median(hits)) if len(hits) else 0.0
    saved, again, worst = 0.0, 0, (0.0, later[0].stage, 0)
    for each, miss in zip(later, missed, strict=True):
        extra = float(np.maximum(0.0, each.ms[miss] - usual).sum())
        mine = (
            (each.stage.completed - each.stage.submitted) * extra / max(1.0, float(each.ms.sum()))
        )
        saved, again = saved + mine, again + int(miss.sum())
        worst = max(worst, (mine, each.stage, int(miss.sum())), key=lambda one: one[0])
    partitions = stored.partitions * len(later)
    share = min(1.0, saved / length)
    if again < MISSING * partitions or not worth(saved, length):
        return
    name = f"dataset {short(stored.name)!r}" if stored.name else f"RDD {stored.rdd}"
    _, stage, absent = worst
    yield Finding(
        cause="cache-lost",
        text=f"The {name} is marked to be cached, but {percent(again / partitions)} of the partitions that"
        f" {counted(len(later), 'later stage')} needed were not in the cache and were computed"
        f" again, {absent} of {stored.partitions} in stage {stage.number} alone. With all of them"
        f" in the cache the run would be {duration(saved)} ({percent(share)}) shorter.",
        advice=_advice(app, stages[0]),
        gain=share,
        seconds=saved / 1_000,
        certainty=Certainty.LIKELY if len(hits) else Certainty.POSSIBLE,
        place=Place(stage=stage.number, attempt=stage.attempt, execution=stage.execution),
        evidence=(
            Evidence(name="partitions that were computed again", value=again),
            Evidence(name="partitions that were read", value=partitions),
        ),
    )


def _advice(app: Application, first: Stage) -> str:
    lost = [each for each in app.executors.values() if each.lost and each.removed > first.submitted]
    if lost:
        return (
            f"Executor {lost[0].name} was lost, and with it what it had cached: see why, or store"
            " two copies (`StorageLevel.MEMORY_AND_DISK_2`), or write the dataset to a table."
        )
    return (
        "It does not fit: store it on disk, too (`StorageLevel.MEMORY_AND_DISK`), select fewer"
        " columns, `unpersist` what is no longer needed, or give executors more memory"
        " (`spark.executor.memory`, `spark.memory.storageFraction`; `spark.driver.memory` if Spark"
        " runs locally)."
    )


def _reading(app: Application, stage: Stage) -> Reading | None:
    rows: Rows = tasks_of(app, stage.number, stage.attempt)
    rows = rows[rows["good"]]
    rows = rows[np.argsort(rows["index"], kind="stable")]
    if not np.array_equal(rows["index"], np.arange(stage.tasks)):
        return None
    return Reading(
        stage=stage,
        ms=(leaving(rows) - rows["launch"]) / MS,
        size=rows["in_bytes"].astype(np.float64),
    )


def not_cached(app: Application, length: float) -> Iterator[Finding]:
    """Find a stage that several different SQL executions compute in the same way.

    length: of the run, ms.
    """
    in_batches = {
        stage for job in app.jobs.values() if job.batch is not None for stage in job.stages
    }
    of: dict[tuple[tuple[str, ...], int], dict[int, Stage]] = {}
    plans: dict[int, set[tuple[str, ...]]] = {}
    for stage in app.stages.values():
        if stage.execution is None or not stage.submitted or stage.number in in_batches:
            continue
        plans.setdefault(stage.execution, set()).add(stage.details)
        if stage.details and stage.nodes[-1] == "Exchange" and not stage.stored:
            of.setdefault((stage.details, stage.tasks), {}).setdefault(stage.execution, stage)
    for (details, _), same in of.items():
        different = {frozenset(plans[execution] - {details}) for execution in same}
        if len(same) < TIMES or len(different) < TIMES:
            continue
        took = [max(0, stage.completed - stage.submitted) for stage in same.values()]
        saved = float(sum(took) - max(took))
        if saved < COSTLY * length:
            continue
        stage = next(iter(same.values()))
        yield Finding(
            cause="recomputed-stages",
            text=f"{len(same)} SQL executions compute the same stage, first as stage"
            f" {stage.number} ({short(stage.name)}). If its result were kept, the run would be up to"
            f" {duration(saved)} ({percent(saved / length)}) shorter, provided that it fits and is"
            " cheap to read.",
            advice="`persist` the dataset that these queries have in common before the first of"
            " them, or write it to a table, and `unpersist` it after the last one.",
            gain=min(1.0, saved / length),
            seconds=saved / 1_000,
            certainty=Certainty.POSSIBLE,
            place=Place(stage=stage.number, attempt=stage.attempt, execution=stage.execution),
            evidence=(Evidence(name="executions with this stage", value=len(same)),),
        )
