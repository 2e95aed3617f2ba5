"""A running session, window by window, while it runs: what Spark's own status store says of tasks, asked now and then.

No listener, no callbacks: the store is there with the web interface off, and is asked once per window. It keeps so many
jobs, stages and tasks, and forgets older ones (`retained`); a window in which more of them ended than it keeps lacks
some. It does not say which stages a stage reads from, so waiting for blocks of a shuffle is an activity here. Cores of
an executor are numbered anew in every window.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from rechannel.errors import SessionError
from rechannel.profiling.participation import participation
from rechannel.profiling.reading import Analysis
from rechannel.profiling.snapshot import snapshot
from rechannel.profiling.spark_events import Metrics, ShuffleRead, ShuffleWrite, StageInfo
from rechannel.profiling.spark_log import Job, SparkLog, Task
from rechannel.profiling.spark_trace import spark_trace
from rechannel.profiling.summaries import WINDOWS, Profile, cells, facts
from rechannel.profiling.timeline import timeline
from rechannel.profiling.verdict import findings
from rechannel.profiling.whatif import with_gains
from rechannel.telemetry.spark_tasks import SparkTasks, open_spark_tasks

MS = 1_000_000
LAG_MS = 300
"""Spark's listener thread fills the store some milliseconds behind what happens."""

RETAINED: Mapping[str, int] = {
    "spark.ui.retainedJobs": 1_000,
    "spark.ui.retainedStages": 1_000,
    "spark.ui.retainedTasks": 100_000,
}
"""Settings that say how much the store keeps, with Spark's defaults."""


@dataclass(slots=True)
class Live:
    """Looks at a session once per window. clock, sleep: Unix milliseconds, seconds."""

    tasks: SparkTasks
    retained: Mapping[str, int]
    title: str
    clock: Callable[[], int]
    sleep: Callable[[float], None]
    _done: dict[tuple[int, int], list[dict[str, Any]]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        spark: Any,
        *,
        clock: Callable[[], int] = lambda: time.time_ns() // MS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Live:
        """Of a classic session. Raises SessionError for one of Spark Connect, which has no status store."""
        tasks = open_spark_tasks(spark)
        if tasks is None:
            msg = (
                "a Spark Connect session has no status store to look at: profile its event log instead, with"
                " spark.eventLog.enabled=true on the server"
            )
            raise SessionError(msg)
        conf = spark.sparkContext.getConf()
        retained = {name: int(conf.get(name, str(default))) for name, default in RETAINED.items()}
        title = f"{spark.sparkContext.appName}, Spark {spark.version}"
        return cls(tasks=tasks, retained=retained, title=title, clock=clock, sleep=sleep)

    def windows(self, length_ms: int) -> Iterator[Analysis]:
        """An analysis of every window from now on, each when it is over. It never ends by itself."""
        start = self.clock()
        while True:
            end = start + length_ms
            while (left := end + LAG_MS - self.clock()) > 0:
                self.sleep(left / 1_000)
            yield self.window(start, end)
            start = end

    def window(self, start_ms: int, end_ms: int) -> Analysis:
        """What the store says of a window, Unix milliseconds."""
        log = self._log(start_ms, end_ms)
        trace = spark_trace(log).trace
        line = timeline(trace)
        graph = snapshot(line, trace.messages, start_ms * MS, end_ms * MS)
        found = participation(graph)
        profile = Profile(
            names=trace.names,
            cells=cells(0, found),
            windows=pl.DataFrame([facts(0, found)], schema=WINDOWS),
        )
        told = with_gains(findings(profile), [graph], trace.names)
        return Analysis(
            title=self.title,
            trace=trace,
            line=line,
            profile=profile,
            findings=told,
            notes=self._notes(log),
        )

    def _log(self, start_ms: int, end_ms: int) -> SparkLog:
        log = SparkLog(start=start_ms, end=end_ms)
        for row in self.tasks.newest("JobDataWrapper", self.retained["spark.ui.retainedJobs"]):
            info = row["info"]
            begun, over = info.get("submissionTime") or start_ms, info.get("completionTime") or 0
            if begun < end_ms and (not over or over > start_ms):
                number = info["jobId"]
                log.jobs[number] = Job(number=number, start=begun, end=min(over or end_ms, end_ms))
        for row in self.tasks.newest("StageDataWrapper", self.retained["spark.ui.retainedStages"]):
            self._stage(log, row["info"], start_ms, end_ms)
        for row in self.tasks.newest("ExecutorSummaryWrapper", 1_000):
            log.cores[row["info"]["id"]] = row["info"]["totalCores"]
        return log

    def _stage(self, log: SparkLog, info: Mapping[str, Any], start_ms: int, end_ms: int) -> None:
        begun, over = info.get("submissionTime"), info.get("completionTime")
        if begun is None or begun >= end_ms or (over and over <= start_ms):
            return
        stage = info["stageId"], info["attemptId"]
        log.stages[stage[0]] = StageInfo(number=stage[0], name=info["name"])
        rows = self._done.get(stage) or self.tasks.rows_of(*stage)
        if over:
            self._done[stage] = rows
            while len(self._done) > self.retained["spark.ui.retainedStages"]:
                self._done.pop(next(iter(self._done)))
        log.tasks += [task for row in rows if (task := _task(row, start_ms, end_ms)) is not None]

    def _notes(self, log: SparkLog) -> list[str]:
        if len(log.jobs) < self.retained["spark.ui.retainedJobs"]:
            return []
        return [
            "more jobs ended in the window than Spark keeps: raise spark.ui.retainedJobs, or make it shorter"
        ]


def _task(row: Mapping[str, Any], start_ms: int, end_ms: int) -> Task | None:
    """A task of the store; None for one outside of the window."""
    launch, running = row["launchTime"], row["status"] == "RUNNING"
    finish = end_ms if running else launch + max(0, row["duration"])
    if launch >= end_ms or finish <= start_ms:
        return None
    # Of tasks that failed or were killed the store keeps negated figures.
    figure = {name: max(0, row[name]) for name in FIGURES}
    return Task(
        stage=row["stageId"],
        executor=row["executorId"],
        launch=launch,
        finish=finish,
        getting=row["resultFetchStart"] if row["resultFetchStart"] > 0 else 0,
        metrics=Metrics(
            deserialise=figure["executorDeserializeTime"],
            run=end_ms - launch if running else figure["executorRunTime"],
            gc=figure["jvmGcTime"],
            serialise=figure["resultSerializationTime"],
            read=ShuffleRead(fetch_wait=figure["shuffleFetchWaitTime"]),
            write=ShuffleWrite(time=figure["shuffleWriteTime"]),
        ),
        over=not running,
        good=row["status"] in ("SUCCESS", "RUNNING"),
        killed=row["status"] == "KILLED",
    )


FIGURES = (
    "executorDeserializeTime",
    "executorRunTime",
    "jvmGcTime",
    "resultSerializationTime",
    "shuffleFetchWaitTime",
    "shuffleWriteTime",
)
