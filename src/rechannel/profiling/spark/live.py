"""A running session, window by window: what Spark's own status store says of tasks, queried now
and then.

There is no listener and no callback: the store exists even without the web interface, and is
queried once per window for what is new and what had not ended. It keeps a limited number of jobs,
stages and tasks and drops older ones (`RETAINED`); those dropped before a query are counted and
noted. The store does not say which stages a stage reads from, so waiting for shuffle blocks is an
activity here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rechannel.errors import SessionError
from rechannel.profiling.model.analysis import Analysis, OpenedTrace, analyse_pieces
from rechannel.profiling.model.pieces import Pieces
from rechannel.profiling.model.trace import MS
from rechannel.profiling.spark.application import Executor, Job, Stage
from rechannel.profiling.spark.log import SparkLog
from rechannel.profiling.spark.plans import named
from rechannel.profiling.spark.rows import SparkTask
from rechannel.profiling.spark.task_events import Metrics, ShuffleRead, ShuffleWrite
from rechannel.profiling.spark.trace import spark_trace
from rechannel.telemetry.spark_tasks import SparkTasks, open_spark_tasks

LAG_MS = 300
"""Spark's listener thread updates the store with some milliseconds of delay."""

RETAINED: Mapping[str, int] = {
    "spark.ui.retainedJobs": 1_000,
    "spark.ui.retainedStages": 1_000,
    "spark.ui.retainedTasks": 100_000,
}
"""Settings that say how much Spark keeps, with their defaults."""
RETAINED_AS = {
    "JobDataWrapper": "spark.ui.retainedJobs",
    "StageDataWrapper": "spark.ui.retainedStages",
}
"""The setting for each kind of record."""
EXECUTORS = 10_000
"""Executors that are asked for."""
RUNNING = ("RUNNING", "GET RESULT")
"""States of tasks that have not ended."""
TASK_TIMES = (
    "executorDeserializeTime",
    "executorRunTime",
    "jvmGcTime",
    "resultSerializationTime",
    "shuffleFetchWaitTime",
    "shuffleWriteTime",
)
"""What a task spent its time with, in the names of the store."""


@dataclass(slots=True)
class LiveSession:
    """Queries a session once per window."""

    tasks: SparkTasks
    title: str
    clock: Callable[[], int]
    """Returns Unix milliseconds."""
    retained: Mapping[str, int] = field(default_factory=lambda: RETAINED)
    """The values of the settings in `RETAINED`."""
    stopped: Callable[[], bool] = lambda: False
    """Returns whether the session has stopped."""
    _jobs: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    _stages: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    _next: dict[str, int] = field(default_factory=dict)
    _done: dict[tuple[int, int], list[dict[str, Any]]] = field(default_factory=dict)
    _nodes: dict[int, list[str]] = field(default_factory=dict)
    _failed: set[int] = field(default_factory=set)
    _lost: int = 0
    _lost_tasks: int = 0

    @classmethod
    def of(
        cls,
        spark: Any,
        *,
        clock: Callable[[], int] = lambda: time.time_ns() // MS,
    ) -> LiveSession:
        """Wrap a classic session. Raises SessionError for Spark Connect, which has no status
        store.
        """
        tasks = open_spark_tasks(spark)
        if tasks is None:
            msg = (
                "a Spark Connect session has no status store: set spark.eventLog.enabled=true on the server, and"
                " profile its event log instead"
            )
            raise SessionError(msg)
        conf = spark.sparkContext.getConf()
        retained = {name: int(conf.get(name, str(default))) for name, default in RETAINED.items()}
        title = f"{spark.sparkContext.appName}, Spark {spark.version}"

        def stopped() -> bool:
            running = spark.sparkContext._jsc
            return running is None or bool(running.sc().isStopped())

        return cls(tasks=tasks, title=title, clock=clock, retained=retained, stopped=stopped)

    def begin(self) -> None:
        """Skip what ended earlier: of the jobs and stages that Spark has, only running ones count."""
        for known, what, number in (
            (self._jobs, "JobDataWrapper", "jobId"),
            (self._stages, "StageDataWrapper", "stageId"),
        ):
            infos = [
                row["info"] for row in self.tasks.newest(what, self.retained[RETAINED_AS[what]])
            ]
            known.update(
                {
                    (info[number], info.get("attemptId", 0)): info
                    for info in infos
                    if not info.get("completionTime") and info["status"] != "SKIPPED"
                }
            )
            self._next[what] = max((info[number] + 1 for info in infos), default=0)

    def ready(self, end_ms: int) -> float:
        """Return the seconds until Spark knows everything before a time."""
        return (end_ms + LAG_MS - self.clock()) / 1_000

    def window(self, start_ms: int, end_ms: int) -> Analysis:
        """Return the profile of a window, Unix milliseconds."""
        log = self._log(start_ms, end_ms)
        trace = OpenedTrace(title=self.title, source=spark_trace(log), notes=self._notes())
        return analyse_pieces(trace, Pieces.of(trace.source, [(start_ms * MS, end_ms * MS)]))

    def _log(self, start_ms: int, end_ms: int) -> SparkLog:
        log = SparkLog(start=start_ms, end=end_ms)
        self._look()
        for (number, _), job in self._jobs.items():
            begun, over = job.get("submissionTime") or start_ms, job.get("completionTime") or 0
            if begun < end_ms and (not over or over > start_ms):
                log.jobs[number] = Job(number=number, start=begun, end=min(over or end_ms, end_ms))
        for info in self._stages.values():
            self._stage(log, info, start_ms, end_ms)
        for row in self.tasks.newest("ExecutorSummaryWrapper", EXECUTORS):
            name = row["info"]["id"]
            log.executors[name] = Executor(name=name, cores=row["info"]["totalCores"])
        self._forget(start_ms)
        return log

    def _look(self) -> None:
        """Query jobs and stages that are new, and again those that had not ended last time."""
        first = self._next.get("StageDataWrapper", 0)
        for row in self.tasks.since("RDDOperationGraphWrapper", first):
            nodes = row["rootCluster"]["childClusters"]
            self._nodes[row["stageId"]] = [node["name"] for node in nodes]
        for known, what, index in (
            (self._jobs, "JobDataWrapper", ""),
            (self._stages, "StageDataWrapper", "stageId"),
        ):
            number = "stageId" if index else "jobId"
            again = self._open(known, number)
            begin = self._next.get(what)
            new = [row["info"] for row in self.tasks.since(what, begin or 0, index=index)]
            if new and begin is not None:
                self._lost += min(info[number] for info in new) - begin
            old = []
            if again:
                rows = self.tasks.since(what, min(again), max(again), index)
                old = [row["info"] for row in rows if row["info"][number] in again]
            # What is gone from the store ended, and was dropped before this query.
            for key in [k for k in known if k[0] in again - {info[number] for info in old}]:
                del known[key]
                self._lost += 1
            self._next[what] = max([begin or 0, *(info[number] + 1 for info in new)])
            known.update({(info[number], info.get("attemptId", 0)): info for info in old + new})

    def _open(self, known: Mapping[tuple[int, int], Mapping[str, Any]], number: str) -> set[int]:
        """Return jobs or stages to query again: those that run, and those that may run once more."""
        found = {info[number] for info in known.values() if not info.get("completionTime")}
        if number == "stageId":
            failed = {info[number] for info in known.values() if info["status"] == "FAILED"}
            self._failed |= failed
            for job in self._jobs.values():
                stages = set(job.get("stageIds", ()))
                if not job.get("completionTime") and stages & self._failed:
                    found |= {
                        stage for stage in stages if stage < self._next.get("StageDataWrapper", 0)
                    }
        return found

    def _forget(self, start_ms: int) -> None:
        """Drop what ended before a window: it is in no later one."""
        for known in (self._jobs, self._stages):
            for key in [k for k, info in known.items() if _over(info, start_ms)]:
                del known[key]
        for key in [k for k in self._done if k not in self._stages]:
            del self._done[key]
        self._failed &= {s for job in self._jobs.values() for s in job.get("stageIds", ())}
        kept = {number for number, _ in self._stages}
        self._nodes = {stage: nodes for stage, nodes in self._nodes.items() if stage in kept}

    def _stage(self, log: SparkLog, info: Mapping[str, Any], start_ms: int, end_ms: int) -> None:
        begun, over = info.get("submissionTime"), info.get("completionTime")
        if begun is None or begun >= end_ms or (over and over <= start_ms):
            return
        stage = info["stageId"], info["attemptId"]
        name = named(self._nodes.get(stage[0], ()), info["name"])
        log.stages[stage[0]] = Stage(number=stage[0], attempt=stage[1], name=name)
        rows = self._done.get(stage)
        if rows is None:
            rows = self.tasks.rows_of(*stage)
            if over:
                self._done[stage] = rows
                self._lost_tasks += max(0, info["numCompleteTasks"] - len(rows))
        for row in rows:
            _add(log, row, start_ms, end_ms)

    def _notes(self) -> list[str]:
        jobs, stages, tasks = (f"{name}={self.retained[name]}" for name in RETAINED)
        notes = []
        if self._lost:
            notes.append(
                f"Spark dropped {self._lost} jobs or stages before they were read: raise {jobs} and {stages}, or"
                " make windows shorter"
            )
        if self._lost_tasks:
            notes.append(
                f"Spark dropped {self._lost_tasks} tasks before they were read: raise {tasks}, or make windows"
                " shorter"
            )
        self._lost = self._lost_tasks = 0
        return notes


def _over(info: Mapping[str, Any], before_ms: int) -> bool:
    """Return whether a job or stage ended before a time; skipped stages never ran."""
    return (
        bool((info.get("completionTime") or before_ms + 1) <= before_ms)
        or info.get("status") == "SKIPPED"
    )


def _add(log: SparkLog, row: Mapping[str, Any], start_ms: int, end_ms: int) -> None:
    """Add a task of the store if it overlaps the window."""
    launch, running = row["launchTime"], row["status"] in RUNNING
    finish = end_ms if running else launch + max(0, row["duration"])
    if launch >= end_ms or finish <= start_ms:
        return
    # The store negates the metrics of tasks that failed or were killed.
    figure = {name: max(0, row[name]) for name in TASK_TIMES}
    log.tasks.add(
        SparkTask(
            number=row["taskId"],
            stage=row["stageId"],
            index=row["index"],
            executor=row["executorId"],
            launch=launch,
            finish=finish,
            getting=max(0, row["resultFetchStart"]),
            metrics=Metrics(
                deserialise=figure["executorDeserializeTime"],
                run=end_ms - launch if running else figure["executorRunTime"],
                gc=figure["jvmGcTime"],
                serialise=figure["resultSerializationTime"],
                read=ShuffleRead(fetch_wait=figure["shuffleFetchWaitTime"]),
                write=ShuffleWrite(time=figure["shuffleWriteTime"]),
            ),
            good=row["status"] in ("SUCCESS", *RUNNING),
            killed=row["status"] == "KILLED",
            attempt=row.get("stageAttemptId", 0),
        )
    )
