"""Tasks that do no work: they report what tasks of a wide job would, so that only the driver's own work is left."""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from rechannel.engine.program.physical import PhysicalPlan
from rechannel.engine.spark.reporting import folded_of
from rechannel.engine.stages.runner import Placed, Timestep
from rechannel.kernels.protocol.program import StageProgram, StageStep, TaskState
from rechannel.kernels.shuffle.wire import batch_of
from rechannel.kernels.tasks.report import (
    Emitted,
    Sent,
    SparkTask,
    StateReport,
    TaskCosts,
    TaskReport,
)
from rechannel.kernels.tasks.report_table import fold
from rechannel.kernels.tasks.unit_report import UnitReport
from rechannel.sources.reader import SourceReader
from rechannel.state.manifest import Edit
from rechannel.state.run import Run

ROW_BYTES = 24
HOSTS = 200


@dataclass
class SimulatedTasks:
    """Runs units without tasks: a runner (`engine.stages.runner.Runner`).

    A task with state received `rows` rows of as many keys, wrote a run of them, and carried out the merges that are
    due, over `stored` rows of state.
    """

    plan: PhysicalPlan
    rows: int
    stored: int
    pretended_s: float = 0.0
    """Processor time spent in the place of tasks, which does not count as the driver's."""
    _timesteps: dict[int, Timestep] = field(default_factory=dict)
    _spark_task: int = 0

    def open(self, timestep: Timestep) -> None:
        """Remember under which Configuration the timestep runs."""
        self._timesteps[timestep.number] = timestep

    def run(self, timestep: int, stage: str, step: StageStep) -> list[UnitReport]:
        """Ship the step, have tasks report and one of them fold the reports, and read what it made of them."""
        sent = pickle.dumps(step, protocol=5)  # as it is sent to the workers
        began = time.process_time()
        # What a call has made is freed before the clock is read again: a driver has no such objects to free.
        folded = self._folded(timestep, stage, sent)
        self.pretended_s += time.process_time() - began
        return folded_of(folded)

    def _folded(self, timestep: int, stage: str, sent: bytes) -> list[bytes]:
        """Return the reports of all tasks of a stage, as one of them has folded them."""
        step: StageStep = pickle.loads(sent)  # tasks have objects of their own
        operators = self._timesteps[timestep].cut_by.operators
        tasks = operators[stage].tasks
        consumers = [operator for operator, _ in self.plan.stage(stage).consumers]
        states = step.tasks[:] if step.tasks else [None] * tasks
        blobs = [
            self._report(timestep, stage, number, consumers, state).blob()
            for number, state in enumerate(states)
        ]
        batches = fold([batch_of([0] * tasks, blobs)], many=1)
        return [blob.as_py() for batch in batches for blob in batch[1]]

    def _report(
        self,
        timestep: int,
        stage: str,
        number: int,
        consumers: list[str],
        held: TaskState | None,
    ) -> TaskReport:
        self._spark_task += 1
        attempt = f"{self._spark_task}-0123456789ab"
        now_ms = round(time.time() * 1e3, 3)
        state = None
        if held is not None:
            edit = self._edit(stage, timestep, attempt, held)
            state = StateReport(edit=edit, bins="B" * 24)
        return TaskReport(
            operator=stage,
            timestep=timestep,
            task=number,
            attempt=attempt,
            spark=SparkTask(stage=timestep, task=self._spark_task),
            costs=TaskCosts(
                host=f"host{number % HOSTS}",
                pid=number,
                started_ms=now_ms,
                finished_ms=now_ms + 20.125,
                cpu_ms=12.5,
                ms=dict.fromkeys(
                    ("wait", "deserialise", "lookup", "process", "write", "send"), 1.25
                ),
                counts={
                    "rows_in": self.rows,
                    "rows_out": self.rows,
                    "keys": self.rows,
                    "keys_found": self.rows,
                    "bytes_in": self.rows * ROW_BYTES,
                    "runs": 0 if held is None else len(held.runs),
                    "bytes_fetched": 0,
                    "bytes_spilled": 0,
                },
            ),
            emitted=Emitted(
                sent=tuple(
                    Sent(
                        operator=consumer,
                        input=0,
                        offered=self.rows,
                        rows=self.rows,
                        keys=self.rows,
                        bytes=self.rows * ROW_BYTES,
                    )
                    for consumer in consumers
                )
            ),
            state=state,
        )

    def _edit(self, stage: str, timestep: int, attempt: str, state: TaskState) -> Edit:
        width = state.own.width
        key = f"segments/{stage}/{timestep}/{attempt}"

        def run(name: str, seq: int, level: int, rows: int) -> Run:
            return Run(
                segment=f"{key}-{name}",
                clip=state.own,
                seq=seq,
                level=level,
                rows=rows,
                size=rows * ROW_BYTES,
                span=width,
                digest="0123456789abcdef0123456789abcdef",
            )

        if not state.runs:
            return Edit(add=(run("all", timestep, 30, self.stored),))
        added = [run("new", timestep, 0, self.rows)]
        for place, merge in enumerate(state.merges):
            met = sum(r.rows_in(merge.where) for r in state.runs if r.seq in merge.seqs)
            made = run(f"merge{place}", max(merge.seqs), merge.level, int(met) + 1)
            added.append(
                Run(
                    segment=made.segment,
                    clip=merge.where,
                    seq=made.seq,
                    level=made.level,
                    rows=made.rows,
                    size=made.size,
                    span=merge.where.width,
                    digest=made.digest,
                )
            )
        return Edit(
            retire=tuple((merge.seqs, merge.where) for merge in state.merges), add=tuple(added)
        )

    def placed(self) -> Placed:
        """Nowhere."""
        return Placed()

    def kept(self, timestep: int, node: str, keys: list[str]) -> None:
        """Keep nothing."""

    def switch_to(
        self,
        plan: PhysicalPlan,
        programs: Mapping[str, StageProgram],
        readers: Mapping[str, SourceReader],
    ) -> None:
        """Take another plan."""
        self.plan = plan

    def release(self, timestep: int) -> None:
        """Forget a timestep."""
        self._timesteps.pop(timestep, None)

    def cancel(self) -> None:
        """Do nothing: nothing runs."""

    def gone(self) -> str | None:
        """It is always there."""
        return None

    def starved(self) -> str | None:
        """It takes tasks."""
        return None

    def meaning(self, error: BaseException, sink: str, timestep: int) -> BaseException:
        """Errors say themselves what they are."""
        return error

    def close(self) -> None:
        """Hold nothing."""
