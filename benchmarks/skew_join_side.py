"""The stream of `skew-join`: without and with the controller by turns, in one job, then compared with a batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rechannel as rc
from benchmarks.harness import Measurement, Parameters
from benchmarks.rechannel_side import session
from benchmarks.skew_join_rows import ORDERS, PAIRS, QUOTES, Judged, Market
from benchmarks.variant import report
from rechannel.monitoring import TimestepProgress

JOIN, CONTROLLER = "priced", "skewjoin"
POLL_SECONDS = 0.2
CHANGE_SECONDS = 120.0


def run(parameters: Parameters) -> Measurement:
    """Turns at full speed, then at shares of the capacity that the stream has without the controller."""
    spark = session(parameters)
    market = Market(
        share=parameters["share"],
        orders_per_second=parameters[
            "rows"
        ],  # a timestep of `rows` orders is a second of event time
        **{name: parameters[name] for name in MARKET},
    )
    full = _phase(spark, market, parameters, "full", None)
    rates = sorted(turn["rows_per_second"] for turn in full["turns"] if not turn["spread"])
    capacity = rates[len(rates) // 2]
    loads = {
        str(load): _phase(spark, market, parameters, f"load-{load}", capacity * load / 100)
        for load in parameters["loads"]
    }
    return {"quotes_per_order": market.quotes_per_order, "full": full, "loads": loads}


MARKET = ("products", "quotes_per_second", "seconds")


def _phase(
    spark: Any, market: Market, parameters: Parameters, name: str, rate: float | None
) -> dict[str, Any]:
    """One job. rate: orders per second by the clock; None = as fast as the stream takes them."""
    out = f"{parameters['scratch']}/out-{name}"
    job = _job(spark, market, parameters, name, rate, out)
    watch = Watch(job=job)
    turns = []
    try:
        _until(job, lambda: job.status.timestep >= parameters["warmup"], "the warm-up")
        for number in range(parameters["turns"]):
            for spread in (False, True):
                took = _spread(job) if spread else _gather(job)
                watch.during(parameters["settle_seconds"], parameters["settle_timesteps"])
                report(f"{name}: turn {number + 1}, {'with' if spread else 'without'}")
                found = watch.during(parameters["turn_seconds"], parameters["turn_timesteps"])
                turns.append({"spread": spread, "timesteps_to_change": took, **figures(found)})
                if rate is not None:
                    since = job.committed_offset("orders")["since_ms"]
                    turns[-1]["latencies"] = latencies(found, since, rate)
        log = [str(line) for line in job.controllers[CONTROLLER].status.log]
    finally:
        job.stop(CHANGE_SECONDS)
    counts = {source: job.committed_offset(source)["rows"] for source in ("orders", "quotes")}
    return {"turns": turns, "log": log, **_compared(spark, market, parameters, out, counts)}


def _job(
    spark: Any,
    market: Market,
    parameters: Parameters,
    name: str,
    rate: float | None,
    out: str,
) -> rc.RunningJob:
    ratio = market.quotes_per_second / market.orders_per_second
    read = rc.read(spark)
    orders, quotes = (
        read.generator(
            function,
            schema=schema,
            rows_per_second=None if rate is None else rate * share,
            per_timestep=round(parameters["rows"] * share),
            partitions=partitions,
            name=source,
        ).event_time(column)
        for source, function, schema, column, share, partitions in (
            ("orders", market.orders, ORDERS, "ordered_at", 1.0, parameters["cores"]),
            ("quotes", market.quotes, QUOTES, "quoted_at", ratio, 1),
        )
    )
    within = rc.between(f"-{market.seconds} seconds", 0)
    pairs = orders.join(quotes, "product", within=within, name=JOIN, tasks=parameters["tasks"])
    judged = Judged(us_per_pair=parameters["us_per_pair"])
    few = pairs.map_batches(judged, schema=PAIRS, name="kept")
    return rc.Job(
        name,
        few.write.parquet(out),
        state=Path(parameters["scratch"]) / f"state-{name}",
        settings=rc.Settings(
            tasks=parameters["cores"], durability=rc.Durability(parameters["durability"])
        ),
    ).start()


@dataclass
class Watch:
    """Collects the progress of a job."""

    job: rc.RunningJob
    last: int = 0

    def during(self, seconds: float, timesteps: int) -> list[TimestepProgress]:
        """Wait for that time and that number of timesteps; return them, without the one that was under way at first."""
        self.last = self.job.status.timestep + 1
        found: list[TimestepProgress] = []
        until = time.perf_counter() + seconds
        while time.perf_counter() < until or len(found) < timesteps:
            if self.job.await_termination(POLL_SECONDS):
                raise RuntimeError("the job has ended")
            for one in self.job.recent_progress:
                if one.timestep > self.last:
                    found.append(one)
                    self.last = one.timestep
        return found


def figures(found: Sequence[TimestepProgress]) -> dict[str, Any]:
    """Rows per second, durations, and what part of the join's work its busiest task has."""
    seconds = (found[-1].committed_ms - found[0].committed_ms) / 1e3
    parts = [
        _busy_ms(join.slowest_task.ms) / _busy_ms(join.ms)
        for each in found
        if (join := each.operators[JOIN]).slowest_task is not None and join.rows_in
    ]
    return {
        "rows_per_second": sum(_orders(each) for each in found[1:]) / seconds,
        "duration_ms": [each.duration_ms for each in found],
        "busiest_task": parts,
    }


def _busy_ms(activities: Mapping[str, float]) -> float:
    return sum(ms for name, ms in activities.items() if name != "wait")


def latencies(found: Sequence[TimestepProgress], since_ms: float, rate: float) -> list[float]:
    """Milliseconds from the moment at which an order was due to its commit, of 20 orders per timestep."""
    out: list[float] = []
    for each in found:
        first, last = _offsets(each)
        step = (last - first) / 20
        due = [since_ms + 1e3 * (first + step * (i + 0.5)) / rate for i in range(20)]
        out += [each.committed_ms - at for at in due]
    return out


def _offsets(progress: TimestepProgress) -> tuple[int, int]:
    """The orders that a timestep has read."""
    read = progress.sources.get("orders")
    return (0, 0) if read is None else (read["start"].get("rows", 0), read["end"]["rows"])


def _orders(progress: TimestepProgress) -> int:
    first, last = _offsets(progress)
    return last - first


def _spread(job: rc.RunningJob) -> int:
    """Let the controller find the hot product and spread it; returns how many timesteps that takes."""
    began = job.status.timestep
    controller = rc.control.library.SkewJoin(operators=[JOIN])
    job.control(rc.control.install(controller, name=CONTROLLER))
    _until(job, lambda: is_spread(job), "the controller's change")
    return job.status.timestep - began


def _gather(job: rc.RunningJob) -> int:
    """Remove the controller, and take back what it has done; returns how many timesteps that takes."""
    began = job.status.timestep
    if CONTROLLER in job.controllers:
        job.controllers[CONTROLLER].remove()
    _until(job, lambda: not job.open_reconfigurations, "the end of changes")
    if is_spread(job):
        job.reconfigure(rc.changes.gather(JOIN)).wait(CHANGE_SECONDS)
    return job.status.timestep - began


def is_spread(job: rc.RunningJob) -> bool:
    """Whether several tasks share a key of the join."""
    routing = job.configuration.operators[JOIN].routing
    return routing is not None and bool(routing.spreads)


def _until(job: rc.RunningJob, holds: Callable[[], bool], what: str) -> None:
    """Wait. Raises RuntimeError if it takes too long, or the job ends."""
    until = time.perf_counter() + CHANGE_SECONDS
    while not holds():
        if job.await_termination(POLL_SECONDS):
            raise RuntimeError(f"the job ended before {what}")
        if time.perf_counter() > until:
            log = [str(line) for each in job.controllers.values() for line in each.status.log]
            raise RuntimeError(f"{what} has not come in {CHANGE_SECONDS:g} s: {log[-5:]}")


def _compared(
    spark: Any, market: Market, parameters: Parameters, out: str, counts: dict[str, int]
) -> dict[str, int]:
    """Compare all pairs with those of a batch, row for row."""
    report(f"comparing {counts['orders']:,} orders with a batch")
    wanted = f"{out}-batch"
    batch = market.matched(spark, counts["orders"], counts["quotes"], 4 * parameters["cores"])
    batch.write.parquet(wanted)
    made, right = (spark.read.parquet(path).select("order", "quote") for path in (out, wanted))
    return {
        **counts,
        "pairs": right.count(),
        "missing": right.exceptAll(made).count(),
        "surplus": made.exceptAll(right).count(),
    }
