"""Applications to diagnose, made from what their tasks do: a scheduler gives the tasks times and executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.spark.application import (
    Application,
    Batch,
    Execution,
    Executor,
    Job,
    Stage,
    Stream,
)
from rechannel.profiling.spark.rows import SparkTask, TaskRows
from rechannel.profiling.spark.sql_events import PlanMetric, PlanNode
from rechannel.profiling.spark.task_events import Input, Metrics, Output, ShuffleRead, ShuffleWrite

START = 1_700_000_000_000
"""Unix ms."""
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Did:
    """What a task did: ms and bytes. What is neither run nor deserialisation is scheduler delay."""

    ms: int
    run: int | None = None
    """All of it but 2 ms, by default."""
    read: int = 0
    rows: int = 0
    input: int = 0
    wrote: int = 0
    rows_wrote: int = 0
    """For a shuffle."""
    rows_filed: int = 0
    """To files."""
    gc: int = 0
    cpu: int | None = None
    """ms; all of run, by default."""
    spilled: int = 0
    """On disk; in memory it is four times as much."""
    peak: int = 0

    @property
    def metrics(self) -> Metrics:
        """As the log has them."""
        run = max(0, self.ms - 2) if self.run is None else self.run
        return Metrics(
            run=run,
            cpu=(run if self.cpu is None else self.cpu) * 1_000_000,
            gc=self.gc,
            spill_memory=4 * self.spilled,
            spill_disk=self.spilled,
            peak=self.peak,
            read=ShuffleRead(local_bytes=self.read, rows=self.rows),
            write=ShuffleWrite(size=self.wrote, rows=self.rows_wrote),
            output=Output(rows=self.rows_filed),
            input=Input(size=self.input, rows=self.rows if self.input else 0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A stage of a job, after all that come before it."""

    tasks: Sequence[Did]
    name: str = "map at job.py:1"
    details: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    python: bool = False


def times(count: int, ms: int, **more: int) -> list[Did]:
    """Equal tasks."""
    return [Did(ms=ms, **more) for _ in range(count)]


def uneven(ms: int, megabytes: int, rest: int = 19) -> list[Did]:
    """One task that takes that long and reads that much, after others of 1 s and 10 MiB."""
    others = times(rest, 1_000, read=10 * MIB, rows=1_000)
    return [*others, Did(ms=ms, read=megabytes * MIB, rows=100 * megabytes)]


def scanned(files: int, size: int) -> dict[int, Execution]:
    """An execution that reads so many files, and so many bytes in all."""
    metrics = [
        PlanMetric(accumulator=1, name="number of files read"),
        PlanMetric(accumulator=2, name="size of files read"),
    ]
    node = PlanNode(name="Scan parquet", text="FileScan parquet [id#1]", metrics=metrics)
    plan = PlanNode(name="Project", children=[node])
    return {0: Execution(number=0, start=START, plan=plan, metrics={1: files, 2: size})}


@dataclass(slots=True)
class Cluster:
    """Executors with two cores each, and how many times as long as elsewhere tasks take there."""

    executors: Mapping[str, float] = field(default_factory=lambda: {"1": 1.0, "2": 1.0})
    cores: int = 2


@dataclass(slots=True)
class Maker:
    """Makes an application."""

    cluster: Cluster = field(default_factory=Cluster)
    gap: int = 100
    """Between jobs, ms."""
    streaming: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    executions: Mapping[int, Execution] = field(default_factory=dict)
    tasks: TaskRows = field(default_factory=TaskRows)
    now: int = START + 1_000

    def made(self, jobs: Sequence[Sequence[Made]]) -> Application:
        """Run jobs one after the other, and the stages of each, too."""
        stages: dict[tuple[int, int], Stage] = {}
        known: dict[int, Job] = {}
        batches = []
        for number, each in enumerate(jobs):
            begun, numbers = self.now, []
            for stage in each:
                key = len(stages)
                numbers.append(key)
                submitted, self.now = self.now, self.run(key, stage, self.now)
                stages[key, 0] = Stage(
                    number=key,
                    name=stage.name,
                    parents=tuple(numbers[-2:-1]),
                    tasks=len(stage.tasks),
                    submitted=submitted,
                    completed=self.now,
                    nodes=tuple(text.split()[0] for text in stage.details),
                    details=stage.details,
                    functions=stage.functions,
                    python=stage.python,
                )
            known[number] = Job(
                number=number,
                start=begun,
                end=self.now,
                stages=tuple(numbers),
                execution=number if number in self.executions else None,
                batch=number if self.streaming else None,
                query="q" if self.streaming else "",
            )
            if self.streaming:
                batches.append(Batch(query="q", number=number, start=begun, end=self.now))
            self.now += self.gap
        return Application(
            name="made",
            start=START,
            end=self.now,
            ended=True,
            streams={"q": Stream(query="q", start=batches[0].start, end=batches[-1].end)}
            if batches
            else {},
            settings=self.settings,
            executors={
                name: Executor(name=name, host=f"host{name}", cores=self.cluster.cores, added=START)
                for name in self.cluster.executors
            },
            jobs=known,
            stages=stages,
            executions=self.executions,
            batches=batches,
            tasks=self.tasks,
        )

    def run(self, stage: int, made: Made, start: int) -> int:
        """Run the tasks of a stage in order, each on the core that is free first, and return its end."""
        free = [(start, name) for name in self.cluster.executors for _ in range(self.cluster.cores)]
        end = start
        for index, did in enumerate(made.tasks):
            free.sort(key=lambda core: core[0])
            at, name = free.pop(0)
            slower = self.cluster.executors[name]
            finish = at + round(did.ms * slower)
            self.add(stage, index, name, (at, finish), did.metrics)
            free.append((finish, name))
            end = max(end, finish)
        return end

    def add(
        self,
        stage: int,
        index: int,
        executor: str,
        ran: tuple[int, int],
        metrics: Metrics,
        **more: bool,
    ) -> None:
        """Add an attempt of a task."""
        self.tasks.add(
            SparkTask(
                number=len(self.tasks),
                stage=stage,
                index=index,
                executor=executor,
                launch=ran[0],
                finish=ran[1],
                metrics=metrics,
                **more,
            )
        )


def made(*jobs: Sequence[Made], of: Callable[[], Maker] = Maker) -> Application:
    """Return an application of jobs."""
    return of().made(jobs)


def case_of(*jobs: Sequence[Made], **more: Any) -> Case:
    """The case of an application of jobs. more: of `Maker`."""
    return Case(app=Maker(**more).made(jobs))
