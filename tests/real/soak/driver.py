"""The driver of a soak, in a process of its own: it stands by, runs the stream, and does what a mailbox asks of it.

The mailbox is a folder. The soak writes `NUMBER.json`; the driver that runs writes `NUMBER.answer.json`. What a driver
did not answer before it was killed, the next one does: a change may then be asked for twice.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pyarrow as pa

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.spark.cluster import spark_cluster
from rechannel.errors import OldProgramError, RechannelError
from rechannel.model.routing import Routing
from tests.real.soak.schedule import HOSTS, Kind
from tests.real.soak.topics import COPIES, INPUTS, LETTERS, TOTALS
from tests.spark.children import environment
from tests.spark.programs import PATIENCE, session, tell

PLAIN = {"count": agg.count(), "sum": agg.sum("n")}
LOGICS: tuple[dict[str, Any], ...] = (PLAIN, {**PLAIN, "since": agg.count()})
"""What the totals are: without, and with the column that comes and goes."""
AGAIN: dict[str, Any] = {"then": "stop", "attempts": 1_000, "pause_ms": 300}
STATUS = "status.json"
HEAP_EVERY_S = 600.0
CALM = {
    "spark__executor__heartbeatInterval": "4s",
    "spark__network__timeout": "20s",
    "spark__storage__blockManagerHeartbeatTimeoutMs": "20s",
    "spark__rpc__askTimeout": "20s",
}
"""A host that is cut off is still noticed; one that is busy with other work of the machine is not taken for lost."""


def flows(bootstrap: str, logic: int) -> list[Any]:
    """Every record again, totals per user, and records that cannot be read."""
    records = rc.read().kafka(bootstrap, INPUTS, per_timestep=20_000, wait_s=10.0, name="in")
    events = records.decode_json("user bigint, n bigint", on_error="dead_letter", name="events")
    totals = events.key_by("user").aggregate(LOGICS[logic], name="totals")
    sinks = (
        (totals, TOTALS, "user"),
        (events.select("user", "n", name="same"), COPIES, ""),
        (events.dead_letters, LETTERS, ""),
    )
    return [
        stream.write.on_failure(**AGAIN).kafka(
            bootstrap, topic, key=key, wait_s=15.0, name=f"to-{topic}",
            options={"compression.type": "lz4"},
        )
        for stream, topic, key in sinks
    ]  # fmt: skip


def settings() -> rc.Settings:
    """Few bins and a calm rhythm: it has to go on for hours beside brokers and hosts on a small machine."""
    return rc.Settings(
        tasks=4,
        bins=32,
        interval_ms=1_000,
        in_flight=2,
        patience=rc.Patience(seconds=600),
    )


def job_of(given: dict[str, Any], logic: int, spark: Any = None) -> rc.Job:
    """The job."""
    return rc.Job(
        "soak", flows(given["bootstrap"], logic), state=given["state"], settings=settings(), spark=spark
    )  # fmt: skip


def start(given: dict[str, Any], spark: Any) -> tuple[rc.RunningJob, int]:
    """Start the job with the logic that it has now, whichever that is."""
    try:
        return job_of(given, 0, spark).start(), 0
    except OldProgramError:
        return job_of(given, 1, spark).start(), 1


def session_of(given: dict[str, Any]) -> Any:
    """A session with one small executor per host."""
    path = environment()["PYTHONPATH"]
    store = {f"spark__executorEnv__{name}": each for name, each in given["store"].items()}
    return session(
        given["place"],
        given["url"],
        **given["settings"],
        **store,
        recovery="fast",
        **CALM,
        spark__python__daemon__module="rechannel.engine.spark.daemon",
        spark__executor__memory="512m",
        spark__executorEnv__PYTHONPATH=path,
        spark__cores__max=str(HOSTS),
    )


def drive(given: dict[str, Any], number: int) -> dict[str, Any]:
    """Stand by, run until the mailbox says stop, and return what became of all changes."""
    os.environ.update(given["store"])
    job_of(given, 0).stand_by()
    tell(begins=number)
    spark = session_of(given)
    job, logic = start(given, spark)
    hands = Hands(job, spark, logic)
    box, status = Path(given["mailbox"]), Path(given["place"]) / STATUS
    told, looked = 0.0, time.monotonic()
    while not hands.stopped:
        if time.monotonic() - looked > HEAP_EVERY_S:
            looked = time.monotonic()
            with (Path(given["place"]) / f"heap-{number}.jsonl").open("a") as file:
                file.write(json.dumps(heap()) + "\n")
        if time.monotonic() - told > 1:
            told = time.monotonic()
            _write(status, {"number": number, **hands.status()})
        for letter in sorted(box.glob("*.ask.json")):
            answer = letter.with_name(letter.name.replace(".ask.", ".answer."))
            if not answer.exists():
                _write(answer, {"number": number, **hands.do(json.loads(letter.read_text()))})
        if job.await_termination(0.1) and not hands.stopped:
            raise RuntimeError("the job ended of itself")
    spark.stop()
    return {"timestep": job.status.timestep}


class MallInfo(ctypes.Structure):
    """What glibc's `mallinfo2` returns."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def heap() -> dict[str, Any]:
    """Where the memory of this process is: in use or held free by malloc, in Arrow's pool, and in which objects."""
    gc.collect()
    found = gc.get_objects()
    kinds = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in found)
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = MallInfo
    now = libc.mallinfo2()
    return {
        "at": time.time(),
        "rss_mib": psutil.Process().memory_info().rss >> 20,
        "malloc": {name: getattr(now, name) for name in ("hblkhd", "uordblks", "fordblks")},
        "arrow": pa.total_allocated_bytes(),
        "blocks": sys.getallocatedblocks(),
        "threads": dict(Counter(_called(each.id) for each in psutil.Process().threads())),
        "objects": len(found),
        "kinds": dict(kinds.most_common(40)),
    }


def _called(thread: int) -> str:
    """What the system calls a thread of this process: librdkafka's have names of their own."""
    try:
        return Path(f"/proc/self/task/{thread}/comm").read_text().strip()
    except OSError:
        return "ended"


def _write(path: Path, facts: dict[str, Any]) -> None:
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    hidden.write_text(json.dumps(facts))
    hidden.rename(path)


class Hands:
    """What a driver does when it is asked."""

    def __init__(self, job: rc.RunningJob, spark: Any, logic: int) -> None:
        """logic: the number of the one that the totals have."""
        self.job, self.logic, self.stopped = job, logic, False
        self._cluster = spark_cluster(spark)

    def status(self) -> dict[str, Any]:
        """What the job is doing."""
        now = self.job.status
        return {
            "timestep": now.timestep,
            "retries": now.retries,
            "troubles": {name: str(each)[:400] for name, each in now.troubles.items()},
            "executors": {each.id: each.host for each in self._cluster.executors()},
            "open": [str(each.record.change)[:200] for each in self.job.open_reconfigurations],
            "sinks": {name: str(each)[:200] for name, each in self.job.sinks.items()},
        }

    def do(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Do one thing."""
        if asked["do"] == "stop":
            self.job.stop(PATIENCE)
            self.stopped = True
            return {}
        if asked["do"] == "history":
            return {"history": [[one.id, one.phase, one.reason] for one in self.job.history()]}
        try:
            return {"id": self._change(Kind(asked["do"]), Random(asked["seed"]))}
        except RechannelError as refusal:
            return {"refused": f"{type(refusal).__name__}: {refusal}"[:500]}

    def _change(self, kind: Kind, choose: Random) -> str:
        totals = self.job.configuration.operators["totals"]
        routing = totals.routing
        assert routing is not None
        change = self._other(kind, choose) or _of_bins(kind, choose, routing)
        strategies = (
            rc.strategies.all_at_once(),
            rc.strategies.batched(bins=8),
            rc.strategies.fluid(bins=4),
            rc.strategies.optimized(bins=8),
        )
        asked = self.job.reconfigure(change, choose.choice(strategies), cause=str(kind))
        if kind is Kind.LOGIC:
            self.logic = 1 - self.logic
        return asked.id

    def _other(self, kind: Kind, choose: Random) -> Any:
        if kind is Kind.LOGIC:
            drop = {"migrate": rc.changes.migrate(drop=["since"])} if self.logic else {}
            return rc.changes.change_logic("totals", LOGICS[1 - self.logic], **drop)
        if kind is Kind.EXECUTORS:
            now = self.job.configuration.executors or HOSTS
            return rc.changes.executors(HOSTS - 1 if now == HOSTS else HOSTS)
        if kind is Kind.PLACE:
            tasks = self.job.configuration.operators["totals"].tasks
            executors = [each.id for each in self._cluster.executors()]
            return rc.changes.place(
                "totals", choose.randrange(tasks), choose.choice(executors) if executors else None
            )
        return None


def _of_bins(kind: Kind, choose: Random, routing: Routing) -> Any:
    tasks, bins = routing.tasks, routing.bins
    if kind is Kind.RESCALE:
        return rc.changes.rescale(
            "totals", tasks=choose.choice([n for n in range(2, 7) if n != tasks])
        )
    if kind is Kind.REBALANCE:
        return rc.changes.rebalance("totals", tolerance=0.02)
    if kind is Kind.SPLIT:
        return rc.changes.split("totals", choose.randrange(bins), into=2)
    if kind is Kind.MERGE:
        first = choose.randrange(bins - 2)
        return rc.changes.merge("totals", [first, first + 1])
    assert kind is Kind.MOVE, kind
    return rc.changes.move("totals", choose.sample(range(bins), 4), choose.randrange(tasks))
