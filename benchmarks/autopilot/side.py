"""Rechannel's sides: with Autopilot, and with what it began with."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import rechannel as rc
from benchmarks.autopilot.events import SECOND, PhasedSource, options_of
from benchmarks.autopilot.waiting import EXECUTORS, STATE, waiting
from benchmarks.autopilot.watched import PilotMeasurement, Watch
from benchmarks.harness import Parameters
from benchmarks.rechannel_side import ENTRIES_KEPT, commits
from benchmarks.session import shared_settings
from benchmarks.yahoo.query import Campaigns, parsed
from rechannel.engine.spark.cluster import spark_cluster

SOURCE, COUNTS = "events", "counts"
PATIENCE_S = 120.0


def piloted(parameters: Parameters) -> PilotMeasurement:
    """With Autopilot."""
    return _run(parameters, controlled=True)


def left_alone(parameters: Parameters) -> PilotMeasurement:
    """Without it."""
    return _run(parameters, controlled=False)


def ad_ids(batch: Any) -> Any:
    """Advertisement and event time of all events."""
    import pyarrow as pa

    from benchmarks.yahoo.query import TIME

    found = parsed(batch.column(0))
    times = found["event_time"].cast(pa.int64()).cast(pa.timestamp("ms", "UTC")).cast(TIME)
    columns = [found["ad_id"].combine_chunks(), times.combine_chunks()]
    return pa.RecordBatch.from_arrays(columns, names=["ad_id", "event_time"])


def _session(parameters: Parameters) -> Any:
    settings = {
        **shared_settings({**parameters, "cores": 1, "tasks": parameters["executors"][1]}),
        **EXECUTORS,
        "spark.locality.wait": "10s",
    }
    del settings["spark.master"]
    named: dict[str, Any] = {name.replace(".", "__"): value for name, value in settings.items()}
    master = f"local-cluster[{parameters['executors'][1]},1,1024]"
    return rc.session(master, speculation=False, **named)


def _flow(spark: Any, parameters: Parameters, start_ns: int) -> Any:
    lines = rc.read(spark).python(
        PhasedSource, options=options_of(parameters, start_ns), name=SOURCE
    )
    ads = lines.map_batches(ad_ids, "ad_id STRING, event_time TIMESTAMP", name="parsed")
    tables = Campaigns(campaigns=parameters["campaigns"], ads=parameters["ads"])
    schema = "campaign_id STRING, event_time TIMESTAMP"
    views = ads.map_batches(tables, schema, name="campaigns")
    counted = views.key_by("campaign_id").track_batches(
        waiting(parameters), state=STATE, name=COUNTS, bins=parameters["bins"]
    )
    return counted.write.noop()


def pilot(parameters: Parameters) -> rc.control.Controller:
    """Return the controller with the goal of the parameters."""
    return rc.control.library.Autopilot(
        target_utilisation=parameters["utilisation"],
        latency_ms=parameters["target_ms"],
        executors=tuple(parameters["executors"]),
        cores_per_executor=1,
        max=4 * parameters["executors"][1],
        catch_up_s=parameters["catch_up_seconds"],
        steering=parameters["steering"],
        window=parameters["window"],
    )


def _run(parameters: Parameters, *, controlled: bool) -> PilotMeasurement:
    spark, least = _session(parameters), parameters["executors"][0]
    cluster = spark_cluster(spark)
    _until(lambda: len(cluster.executors()) == parameters["executors"][1])
    start_ns = time.time_ns() + parameters["ahead_seconds"] * SECOND
    settings = rc.Settings(
        tasks=least,
        interval_ms=parameters["interval_ms"],
        catch_up=True,
        durability=rc.Durability(parameters["durability"]),
        snapshot_every=ENTRIES_KEPT,
    )
    state = Path(parameters["scratch"]) / "state"
    flow = _flow(spark, parameters, start_ns)
    job = rc.Job("autopilot", flow, state=state, settings=settings).start()
    job.reconfigure(rc.changes.executors(least)).wait(PATIENCE_S)
    _until(lambda: len(cluster.executors()) == least)
    if controlled:
        job.control(rc.control.install(pilot(parameters), name="pilot", seconds=120.0))
    if time.time_ns() > start_ns:
        raise RuntimeError("the machine took too long to begin: raise ahead_seconds")

    def alive() -> None:
        if job.await_termination(0):
            raise RuntimeError("the job ended")

    watch = Watch(
        parameters=parameters,
        start_ns=start_ns,
        executors=lambda: [each.id for each in cluster.executors()],
        alive=alive,
    )
    watch.follow()
    history = job.history()
    decisions = job.controllers["pilot"].state["decisions"] if controlled else []
    job.stop()
    (found,) = job.state(COUNTS).selectExpr("sum(views) AS views").collect()
    done = list(commits(parameters, SOURCE))
    by_timestep = {n: at for n, (_, _, at) in enumerate(done, 1)}
    return {
        "start_ns": start_ns,
        "commits": done,
        "executors": watch.counts,
        "changes": [
            (each.first_timestep, by_timestep.get(each.first_timestep, 0), str(each.change))
            for each in history
            if each.first_timestep
        ],
        "decisions": list(decisions),
        "views": int(found["views"]),
        "rows": done[-1][1],
    }


def _until(condition: Any) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            raise RuntimeError(f"executors did not come or go within {PATIENCE_S:g} s")
        time.sleep(0.1)
