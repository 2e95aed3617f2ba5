"""Event logs as Spark writes them, line by line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rechannel.profiling.model.trace import MS
from rechannel.profiling.spark.log import SparkLog
from rechannel.profiling.spark.trace import spark_trace

START = 1_700_000_000_000
"""ms"""


def line(event: str, **fields: Any) -> bytes:
    return (
        json.dumps({"Event": f"SparkListener{event}", **fields}, separators=(",", ":")).encode()
        + b"\n"
    )


def info(number: int, executor: str, launch: int, finish: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "Task ID": number,
        "Index": number,
        "Attempt": 0,
        "Launch Time": START + launch,
        "Executor ID": executor,
        "Host": "h",
        "Locality": "ANY",
        "Speculative": False,
        "Getting Result Time": 0,
        "Finish Time": START + finish if finish else 0,
        "Failed": False,
        "Killed": False,
        "Accumulables": [],
        **more,
    }


def stage_info(
    number: int, name: str = "count at job.py:1", parents: Sequence[int] = (), scope: str = ""
) -> dict[str, Any]:
    rdd: dict[str, Any] = {"RDD ID": number, "Name": "MapPartitionsRDD", "Number of Partitions": 2}
    if scope:
        rdd["Scope"] = json.dumps({"id": "1", "name": scope})
    return {
        "Stage ID": number,
        "Stage Attempt ID": 0,
        "Stage Name": name,
        "Number of Tasks": 2,
        "RDD Info": [rdd],
        "Parent IDs": list(parents),
        "Accumulables": [],
    }


def metrics(
    run: int,
    *,
    deserialise: int = 0,
    gc: int = 0,
    serialise: int = 0,
    fetch: int = 0,
    write: int = 0,
) -> dict[str, Any]:
    return {
        "Executor Deserialize Time": deserialise,
        "Executor Run Time": run,
        "JVM GC Time": gc,
        "Result Serialization Time": serialise,
        "Shuffle Read Metrics": {"Fetch Wait Time": fetch, "Remote Bytes Read": 0},
        "Shuffle Write Metrics": {"Shuffle Write Time": write * 1_000_000},
        "Updated Blocks": [],
    }


def task_end(
    stage: int, task: dict[str, Any], figures: dict[str, Any] | None, reason: str = "Success"
) -> bytes:
    body = {
        "Stage ID": stage,
        "Stage Attempt ID": 0,
        "Task Type": "ResultTask",
        "Task End Reason": {"Reason": reason},
        "Task Info": task,
    }
    return line("TaskEnd", **body, **({} if figures is None else {"Task Metrics": figures}))


def small() -> list[bytes]:
    """Two stages on one executor of two cores: 0 of two tasks, the second long; then 1 of one task that fetches."""
    one, two = stage_info(0, scope="Scan"), stage_info(1, parents=[0], scope="Exchange")
    long, short = info(1, "1", 110, 510), info(0, "1", 110, 210)
    last = info(2, "1", 520, 700, Index=1)
    return [
        line("LogStart", **{"Spark Version": "4.3.0"}),
        line(
            "ApplicationStart",
            **{"App Name": "small", "App ID": "app-1", "Timestamp": START, "User": "u"},
        ),
        line(
            "ExecutorAdded",
            **{
                "Timestamp": START + 5,
                "Executor ID": "1",
                "Executor Info": {"Host": "h", "Total Cores": 2},
            },
        ),
        line(
            "JobStart",
            **{
                "Job ID": 0,
                "Submission Time": START + 100,
                "Stage Infos": [one, two],
                "Properties": {},
            },
        ),
        line("StageSubmitted", **{"Stage Info": one}),
        line("TaskStart", **{"Stage ID": 0, "Task Info": info(0, "1", 110)}),
        line("TaskStart", **{"Stage ID": 0, "Task Info": info(1, "1", 110)}),
        task_end(0, short, metrics(80, deserialise=5, write=10)),
        task_end(0, long, metrics(380, deserialise=5, gc=40, write=10)),
        line("StageCompleted", **{"Stage Info": one}),
        line("StageSubmitted", **{"Stage Info": two}),
        line("TaskStart", **{"Stage ID": 1, "Task Info": info(2, "1", 520, Index=1)}),
        task_end(1, last, metrics(150, deserialise=10, serialise=5, fetch=50)),
        line("StageCompleted", **{"Stage Info": two}),
        line(
            "JobEnd",
            **{
                "Job ID": 0,
                "Completion Time": START + 720,
                "Job Result": {"Result": "JobSucceeded"},
            },
        ),
        line("ApplicationEnd", Timestamp=START + 800),
    ]


@dataclass(frozen=True)
class Attempt:
    """An attempt of a task, ms. worked: what is known of what it did on its core."""

    number: int
    stage: int
    executor: str
    launch: int
    finish: int
    worked: float
    good: bool
    killed: bool


def attempts_of(log: SparkLog) -> list[Attempt]:
    """All attempts, by their numbers."""
    tasks = spark_trace(log).placed.tasks
    names = list(log.tasks.executors)
    return sorted(
        (
            Attempt(
                number=int(row["number"]),
                stage=int(row["stage"]),
                executor=names[row["executor"]],
                launch=int(row["launch"]) // MS,
                finish=int(row["finish"]) // MS,
                worked=float(row["steps"].sum()) / MS,
                good=bool(row["good"]),
                killed=bool(row["killed"]),
            )
            for row in tasks.meeting(*(tasks.span or (0, 0)))
        ),
        key=lambda attempt: attempt.number,
    )
