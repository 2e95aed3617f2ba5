"""Advice of every kind, to be shown."""

from __future__ import annotations

from pathlib import Path

import rechannel as rc
from rechannel.advising.stream import stream_advice
from rechannel.control.board import Board
from rechannel.scaling.decided import Decided
from rechannel.scaling.files.spark.advice import (
    JobsAdvice,
    LogAdvice,
    Predicted,
    QueryAdvice,
    Replayed,
    StageCost,
)
from rechannel.scaling.measured import Machines
from rechannel.scaling.needs.asked import Asked
from rechannel.scaling.needs.values import ControllerDecisions, StreamAdvice
from rechannel.telemetry.saved import SavedRun
from tests.unit.scaling.files.word_count import write_word_count
from tests.unit.scaling.needs.made import configuration, measured

EVIL = "</script><b onclick=alert(1)>&'\""
"""A name that would be markup."""

DECISIONS = (
    Decided(timestep=9, at_ms=9_000, outcome="enough", why="every operator has what it needs"),
    Decided(
        timestep=20,
        at_ms=20_000,
        outcome="changed",
        why="counts 2 -> 4: more rows arrive",
        parallelism={"counts": 4},
        executors=2,
        changes=("rebalance(operator='counts')",),
        became="r1: rescale(operator='counts', tasks=4) is done",
    ),
)


def of_stream(
    title: str = "shop", *, rate: float | None = 3_000, backlog: int = 200
) -> StreamAdvice:
    """A stream at another load than was measured (None: at that load), with a controller that has decided twice."""
    progress, tasks = measured(60, backlog=backlog)
    made = stream_advice(
        SavedRun(job=title, progress=tuple(progress), tasks=tasks),
        Board(),
        Asked(window_s=4, rate=rate),
        configurations=[configuration()],
        machines=Machines(executors=1, cores_per_executor=2),
    )
    shown = ControllerDecisions(name="autoscale", dry_run=True, decisions=DECISIONS)
    fields = {name: getattr(made, name) for name in ("title", "operators", "needs", "notes")}
    return StreamAdvice(**fields, controllers=(shown,))


def of_ds2(place: Path) -> object:
    """The word count that DS2 ships."""
    return rc.scaling_advice(write_word_count(place))


def of_logs() -> LogAdvice:
    """An application with a stream and batch jobs."""

    def on(cores: int) -> Predicted:
        batch_ms = 300 + 2_400 / cores
        return Predicted(
            cores=cores, executors=cores // 2, partitions=2 * cores, batch_ms=batch_ms, low_ms=0.9 * batch_ms,
            high_ms=1.2 * batch_ms, used=batch_ms / 2_000, keeps=batch_ms <= 1_600, binds="driver",
        )  # fmt: skip

    stage = StageCost(
        name="aggregate", kind="shuffle", tasks=4, rows=9_000, fixed_ms=12, fixed_low_ms=9, fixed_high_ms=15,
        row_ms=0.05, heaviest=1.2, samples=40, tasks_ms=300, busy=0.9,
    )  # fmt: skip
    query = QueryAdvice(
        name="clicks", rate=4_500, rate_from="measured", interval_ms=2_000, interval_from="given", utilisation=0.8,
        batches=12, left_out=2, measured_ms=2_600, measured_rows=9_000, driver_ms=250, phases_ms={"addBatch": 2_000},
        stages=(stage,), now=on(1), advised=on(2), hangs_on="aggregate", others=(on(1), on(4)), state_partitions=200,
        notes=("the state needs a new checkpoint",),
    )  # fmt: skip

    def replayed(cores: int) -> Replayed:
        seconds = 20 + 80 / cores
        return Replayed(cores=cores, executors=0, seconds=seconds, core_seconds=seconds * cores)

    jobs = JobsAdvice(
        now=replayed(4), advised=replayed(8), least_seconds=20, others=(replayed(1), replayed(2)), busy=0.6
    )  # fmt: skip
    return LogAdvice(
        title="app", cores=4, executors=2, executor_cores=2, queries=(query,), jobs=jobs, notes=("no GC times",)
    )  # fmt: skip
