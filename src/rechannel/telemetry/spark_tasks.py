"""Spark's own figures of tasks, from the status store of a classic session's driver.

Private Spark classes, in this file only: `AppStatusStore`, its key-value store and `TaskDataWrapper`. The serializer
that Spark writes such records to disk with also serves `engine/spark/private_executors.py`. The store is there with
the web interface switched off; Spark's listener thread fills it some milliseconds after a task ends.

What costs is the number of calls to the JVM and, from 8 KB on, the size of an answer (it then waits
some 40 ms for an acknowledgement of TCP). So a stage is read by one short chain of calls with a
compressed answer: about half a millisecond for twenty tasks, however many stages Spark remembers.
Reading by parent keeps it so: any other index of the in-memory store sorts everything it holds.
Stages of many tasks are read in as many timesteps as a share of the time is enough for.
"""

from __future__ import annotations

import gzip
import json
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from rechannel.errors import one_sentence
from rechannel.logs import fields
from rechannel.telemetry.build import join, stages_wanted
from rechannel.telemetry.events import Event
from rechannel.telemetry.task_finished import SparkMetrics

_LOG = logging.getLogger("rechannel")

_TASKS = "org.apache.spark.status.TaskDataWrapper"
_SERIALIZER = "org.apache.spark.status.KVUtils$KVStoreScalaSerializer"

_SETTLE_S = (0.02, 0.1)
"""Seconds to wait for Spark's listener thread before the second and the third look."""

_STAGE_ATTEMPTS = 4
"""Attempts of a stage: one whose input was lost runs again under the same id, up to four times."""

_MANY = 64
"""Tasks from which on a stage is read only if there is time for it: 1,000 tasks are some 2 MB of JSON."""

_SHARE = 0.02
"""Share of the time that reading stages of many tasks takes at most."""

_SAVED_S = 1.0
"""Seconds of that share that are kept for later, and what there is at the beginning."""

_FAILURES = 3
"""Failed looks in a row after which no more are made: the context has stopped."""


class SparkTasks:
    """Reads Spark's figures of finished tasks. For one thread at a time.

    context: a classic SparkContext (`open_spark_tasks` finds it). clock: seconds.
    """

    def __init__(
        self,
        context: Any,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sleep, self._clock = sleep, clock
        self._left_s, self._seen_s = _SAVED_S, clock()
        self._failures = 0
        self._gateway = context._gateway
        jvm = self._jvm = context._jvm
        self._store = context._jsc.sc().statusStore().store()
        self._tasks = jvm.java.lang.Class.forName(_TASKS)
        self._serializer = getattr(jvm, _SERIALIZER)()
        # One key serves all stages: every call to the JVM counts.
        self._key = self._gateway.new_array(jvm.int, 2)
        self._array = jvm.java.lang.reflect.Array
        self._attempt = 0

    def complete(self, events: Sequence[Event]) -> list[Event]:
        """Return the same events, with Spark's figures for the tasks that Spark knows.

        Waits up to 0.12 s for tasks that Spark does not know yet. Never raises: when Spark cannot
        be asked, the events are returned unchanged. So are those of stages of many tasks while
        reading such stages has taken its share of the time.
        """
        if self._failures >= _FAILURES:
            return list(events)
        try:
            joined = self._complete(events)
        except Exception as error:  # py4j raises what the other side throws, and more
            self._failures += 1
            if self._failures == _FAILURES:
                _LOG.warning(
                    "telemetry goes on without Spark's task metrics: %s",
                    one_sentence(error),
                    extra=fields("task_metrics_lost", reason=error),
                )
            return list(events)
        self._failures = 0
        return joined

    def read_stage(self, stage: int, attempt: int = 0) -> dict[int, SparkMetrics]:
        """Return the figures of the tasks of a stage that succeeded, by task id; nothing for an unknown stage."""
        tasks = _TASKS_OF_STAGE.decode(self._text(self._stage(stage, attempt)))
        return {task.task_id: task.metrics() for task in tasks if task.is_done()}

    def rows_of(self, stage: int, attempt: int = 0) -> list[dict[str, Any]]:
        """Return the store's records of all tasks of a stage, running and failed ones too, in Spark's names."""
        return self._read_view(self._stage(stage, attempt))

    def _stage(self, stage: int, attempt: int) -> Any:
        self._array.setInt(self._key, 0, stage)
        if attempt != self._attempt:
            self._array.setInt(self._key, 1, attempt)
            self._attempt = attempt
        return self._store.view(self._tasks).parent(self._key)

    def since(
        self, what: str, first: int, last: int | None = None, index: str = ""
    ) -> list[dict[str, Any]]:
        """Return records of a kind (`JobDataWrapper`, ...) with keys from `first` to `last`; None = to the end.

        index: of which of their keys, if not of the one that they are stored by.
        """
        kind = self._jvm.java.lang.Class.forName(f"org.apache.spark.status.{what}")
        view = self._store.view(kind)
        view = (view.index(index) if index else view).first(first)
        return self._read_view(view if last is None else view.last(last))

    def newest(self, what: str, most: int) -> list[dict[str, Any]]:
        """Return the newest records of a kind, by their keys, newest first."""
        kind = self._jvm.java.lang.Class.forName(f"org.apache.spark.status.{what}")
        return self._read_view(self._store.view(kind).reverse().max(most))

    def _read_view(self, view: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self._text(view))
        return rows

    def _text(self, view: Any) -> bytes:
        return gzip.decompress(self._serializer.serialize(view))

    def _complete(self, events: Sequence[Event]) -> list[Event]:
        wanted = stages_wanted(events)
        many = {stage for stage, tasks in wanted.items() if len(tasks) >= _MANY}
        if many and not self._has_time():
            wanted = {stage: tasks for stage, tasks in wanted.items() if stage not in many}
            many = set()
        began = self._clock()
        found = self._read(wanted)
        for pause in _SETTLE_S:
            if not wanted:
                break
            self._sleep(pause)
            found.update(self._read(wanted))
        if many:
            self._left_s -= self._clock() - began
        return join(events, found)

    def _has_time(self) -> bool:
        """Return whether stages of many tasks may be read now."""
        now_s = self._clock()
        self._left_s = min(_SAVED_S, self._left_s + _SHARE * (now_s - self._seen_s))
        self._seen_s = now_s
        return self._left_s > 0

    def _read(self, wanted: dict[int, set[int]]) -> dict[int, SparkMetrics]:
        """Return figures of the wanted tasks, and remove those found from `wanted`."""
        found: dict[int, SparkMetrics] = {}
        for stage, tasks in list(wanted.items()):
            for attempt in range(_STAGE_ATTEMPTS):
                read = self.read_stage(stage, attempt)
                found.update(read)
                tasks.difference_update(read)
                if not tasks or not read:
                    break
            if not tasks:
                del wanted[stage]
        return found


def open_spark_tasks(session: Any) -> SparkTasks | None:
    """Return a reader for a session's tasks; None for a Spark Connect session, which has no status store.

    Spark's figures are then absent from the events, and nothing else changes.
    """
    if getattr(session, "_jsparkSession", None) is None:
        return None
    return SparkTasks(session.sparkContext)


class _Task(msgspec.Struct, rename="camel"):
    """What is read of a record of Spark's store, in its names."""

    task_id: int
    stage_id: int
    stage_attempt_id: int
    partition_id: int
    attempt: int
    speculative: bool
    executor_id: str
    host: str
    status: str
    has_metrics: bool
    launch_time: int
    duration: int
    executor_run_time: int
    executor_cpu_time: int
    jvm_gc_time: int
    executor_deserialize_time: int
    result_serialization_time: int
    shuffle_fetch_wait_time: int
    shuffle_write_time: int
    shuffle_local_bytes_read: int
    shuffle_remote_bytes_read: int
    shuffle_bytes_written: int

    def is_done(self) -> bool:
        """Return whether the task succeeded. Of others the store keeps negated figures, and no report arrived."""
        return self.status == "SUCCESS" and self.has_metrics

    def metrics(self) -> SparkMetrics:
        """Return the figures in our names."""
        return SparkMetrics(
            stage=self.stage_id,
            stage_attempt=self.stage_attempt_id,
            partition=self.partition_id,
            attempt=self.attempt,
            speculative=self.speculative,
            executor=self.executor_id,
            host=self.host,
            launch_ms=self.launch_time,
            finish_ms=self.launch_time + max(0, self.duration),
            run_ms=self.executor_run_time,
            cpu_ms=_milliseconds(self.executor_cpu_time),
            gc_ms=self.jvm_gc_time,
            deserialise_ms=self.executor_deserialize_time,
            result_serialise_ms=self.result_serialization_time,
            shuffle_wait_ms=self.shuffle_fetch_wait_time,
            shuffle_write_ms=_milliseconds(self.shuffle_write_time),
            shuffle_read_bytes=self.shuffle_local_bytes_read + self.shuffle_remote_bytes_read,
            shuffle_write_bytes=self.shuffle_bytes_written,
        )


_TASKS_OF_STAGE = msgspec.json.Decoder(list[_Task])


def _milliseconds(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 3)
