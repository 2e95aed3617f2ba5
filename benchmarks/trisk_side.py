"""The two applications of `trisk`: each runs once, with its controller or without."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any

import rechannel as rc
from benchmarks.harness import Measurement, Parameters
from benchmarks.rechannel_side import session
from benchmarks.variant import report
from examples import fraud_detection, stock_exchange
from rechannel.testing import script

POLL_SECONDS = 0.2
DRAIN_SECONDS = 120


def exchange(parameters: Parameters) -> Measurement:
    """Match the orders of the stock exchange on Spark; a batch of them is a timestep, and comes by the clock."""
    spark = session(parameters)
    source = script(stock_exchange.ORDER)
    pace = Pace(1 / parameters["orders_per_second"])
    stream = stock_exchange.program(source, update=pace, session=spark, tasks=parameters["tasks"])
    per_batch = int(parameters["rate"] * parameters["interval_seconds"])
    batches = list(
        stock_exchange.orders_of(
            3 * parameters["phase_batches"], per_batch, parameters["phase_batches"]
        )
    )
    capacity = parameters["orders_per_second"] * parameters["interval_seconds"]
    controller = stock_exchange.Exchange("books", capacity=capacity, most=parameters["cores"])
    job = rc.Job(
        "exchange",
        stream,
        state=Path(parameters["scratch"]) / "state",
        settings=rc.Settings(durability=rc.Durability(parameters["durability"])),
        controllers=[rc.control.install(controller, dry_run=not parameters["controlled"])],
    ).start()
    for _ in range(parameters["warmup_batches"]):
        source.push(batches[0])
        job.process_all_available()
    latency = _pushed(job, source, batches, parameters)
    job.process_all_available()  # all is published then
    changes = [[one.first_timestep, one.change] for one in job.history()]
    trades = sorted(
        (tuple(row.values()) for row in job.memory("out").to_pylist()), key=lambda row: row[0]
    )
    tasks = job.configuration.operators["books"].tasks
    job.stop()
    return {
        "latency_ms": latency,
        "changes": changes,
        "tasks": tasks,
        "trades": len(trades),
        "digest": hashlib.sha256(repr(trades).encode()).hexdigest(),
    }


class Pace:
    """Matches the orders of a symbol, and waits for a time that goes by their number, as for a check elsewhere."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, symbol: str, state: Any, rows: Any) -> Any:
        """The book after the orders."""
        time.sleep(self.seconds * len(rows["number"]))
        return stock_exchange.match(symbol, state, rows)


def _pushed(
    job: rc.RunningJob, source: Any, batches: list[Any], parameters: Parameters
) -> list[float]:
    """Push batches by the clock, and wait for their commits; milliseconds from one to the other, by batch."""
    at: list[float] = []
    committed: dict[int, float] = {}
    earlier = parameters["warmup_batches"]
    begun = time.time()
    for number, rows in enumerate(batches):
        due = begun + (number + 1) * parameters["interval_seconds"]
        while (left := due - time.time()) > 0:
            time.sleep(min(left, POLL_SECONDS))
            _collect(job, committed)
        at.append(time.time())
        source.push(rows)
        report(f"batch {number + 1} of {len(batches)}, {len(committed)} committed")
    until = time.time() + DRAIN_SECONDS
    while earlier + len(batches) not in committed and time.time() < until:
        if job.await_termination(POLL_SECONDS):
            raise RuntimeError("the job ended before its input did")
        _collect(job, committed)
    return [committed[earlier + n + 1] - 1e3 * when for n, when in enumerate(at)]


def _collect(job: rc.RunningJob, committed: dict[int, float]) -> None:
    """Note when batches were committed, by their number."""
    for progress in job.recent_progress:
        for offsets in progress.sources.values():
            committed.setdefault(offsets["end"]["batches"], progress.committed_ms)


def queue(parameters: Parameters) -> Measurement:
    """Match the orders in process; latencies follow from the orders of the busiest task, by the example's rule."""
    latency, trades, records = stock_exchange.run(
        parameters["seconds"],
        parameters["tasks_in_process"] * 50,
        controlled=parameters["controlled"],
        tasks=parameters["tasks_in_process"],
    )
    return {
        "latency_ms": [1e3 * seconds for seconds in latency],
        "changes": [[record.last_timestep, str(record.change)] for record in records],
        "trades": len(trades),
        "digest": hashlib.sha256(repr(trades).encode()).hexdigest(),
    }


def fraud(parameters: Parameters) -> Measurement:
    """Score payments in process; F1 by minute of the stream, and what the controller has written."""
    f1, log = fraud_detection.run(
        parameters["minutes"], parameters["per_minute"], controlled=parameters["controlled"]
    )
    return {"f1": f1, "log": log}
