"""Small event logs that claim, or span, more than any machine has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from tests.unit.profiling.logs import START, info, line, metrics, small, stage_info, task_end

DAY = 86_400_000
YEAR = 365 * DAY
PLANNED = (
    b'{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart","executionId":1,'
)


def progress(name: str, number: int, start: int, lasted: int) -> bytes:
    """The progress of a batch that begins some milliseconds after the log."""
    when = datetime.fromtimestamp((START + start) / 1_000, UTC)
    told = {
        "id": f"id of {name}",
        "name": name,
        "timestamp": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "batchId": number,
        "durationMs": {"triggerExecution": lasted},
    }
    event = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
    return json.dumps({"Event": event, "progress": told}).encode() + b"\n"


def with_(*more: bytes) -> list[bytes]:
    """The small log with more lines before its end."""
    return [*small()[:-1], *more, small()[-1]]


def task(
    number: int,
    launch: int,
    finish: int,
    stage: int = 0,
    executor: str = "1",
    fields: Mapping[str, Any] = {},
) -> bytes:
    fetch = {"fetch": 20} if stage else {}
    told = {**info(number, executor, launch, finish, Index=number), **fields}
    return task_end(stage, told, metrics(max(0, finish - launch - 10), **fetch))


def added(executor: str, cores: int) -> bytes:
    told = {"Host": "h", "Total Cores": cores}
    return line(
        "ExecutorAdded", **{"Timestamp": START, "Executor ID": executor, "Executor Info": told}
    )


def staged(number: int, parents: Iterable[int] = (), tasks: int = 2) -> bytes:
    told = {**stage_info(number, parents=list(parents)), "Number of Tasks": tasks}
    return line("StageSubmitted", **{"Stage Info": told})


def job(number: int, start: int, **more: object) -> bytes:
    return line(
        "JobStart",
        **{"Job ID": number, "Submission Time": START + start, "Stage Infos": [], **more},
    )


def over(number: int, end: int) -> bytes:
    return line("JobEnd", **{"Job ID": number, "Completion Time": START + end})


def hostile() -> Mapping[str, list[bytes]]:
    """Logs by what is wrong with them."""
    crowd = [f"{n}" for n in range(1_500)]
    return {
        "stale progress": with_(progress("q", 1, 3 * YEAR, 500)),
        "launch time 0": with_(task(9, -START, 300)),
        "the year 2247": with_(task(9, 115, 224 * YEAR)),
        "idle for thirty days": with_(task(9, 30 * DAY, 30 * DAY + 40), job(7, 60 * DAY)),
        "a task every 100 days": with_(
            *(task(9 + n, n * 100 * DAY, n * 100 * DAY + 9) for n in range(280))
        ),
        "2^31 cores": with_(
            added("1", 1 << 31), added("2", 1 << 62), task(9, 110, 200, executor="2")
        ),
        "executors without cores, one of them late": with_(
            added("1", 0),
            line(
                "ExecutorAdded",
                **{"Timestamp": START + 90_000, "Executor ID": "2", "Executor Info": {}},
            ),
            *(task(9 + n, 110 + n, 99_000 + n, executor="12"[n % 2]) for n in range(8)),
        ),
        "executors of 4,000 cores": with_(
            *(added(name, 4_000) for name in crowd),
            *(task(9 + n, 110 + n, 900 + n, executor=name) for n, name in enumerate(crowd)),
        ),
        "10^9 tasks": with_(staged(5, tasks=10**9), task(9, 110, 200, stage=5)),
        "negative stages": with_(
            staged(-7, [-8]), task(9, 110, 200, stage=-7), task(10, 110, 210, stage=-(1 << 31))
        ),
        "parents in a circle": with_(
            *(staged(n, [n % 3 + 10]) for n in (10, 11, 12)),
            *(task(n, 110, 300 + n, stage=n) for n in (10, 11, 12)),
        ),
        "shuffles among all": with_(
            staged(20, tasks=1_500),
            staged(21, [20], tasks=1_500),
            *(task(9 + n, 110, 300, stage=20, executor=name) for n, name in enumerate(crowd)),
            *(
                task(2_000 + n, 300, 600 + n, stage=21, executor=name)
                for n, name in enumerate(crowd)
            ),
        ),
        "numbers of 100 digits": with_(
            task(9, 110, 300, fields={"Getting Result Time": 10**100, "Attempt": 10**100}),
            job(10**100, 10**100),
            line("ExecutorRemoved", **{"Executor ID": "1", "Timestamp": 10**100}),
            task_end(0, info(10, "1", 110, 300), metrics(10**18, gc=-(10**18), fetch=10**30)),
        ),
        "a plan of 100,000 levels": with_(
            PLANNED
            + b'"sparkPlanInfo":'
            + b'{"nodeName":"n","children":[' * 10**5
            + b"]}" * 10**5
            + b"}\n"
        ),
        "jobs that end before they begin": with_(
            job(7, 600),
            over(7, 20),
            job(8, -9 * DAY),
        ),
    }
