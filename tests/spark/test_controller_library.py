"""The controllers of the library on Spark: each does its work, and output and state are as without it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

import rechannel as rc
from rechannel.control.library.skew import skew_of
from rechannel.model.hashing import hash_columns
from rechannel.model.routing import Routing
from rechannel.telemetry.events import Note
from rechannel.telemetry.reading import read_events
from tests.spark.controlled import Slowly, job_of
from tests.spark.programs import (
    BRIEF,
    PATIENCE,
    PER_TIMESTEP,
    entries,
    outputs,
    states,
    until,
)
from tests.support.asking import client_of

BINS = 16


@pytest.mark.slow  # in process, it is tested in every run
def test_monitor_shows_loads_to_prometheus_and_in_telemetry(spark, state, out, briefly_undisturbed):
    monitor = rc.control.library.Monitor(operators=["followed"], timesteps=1, keys=3)
    job = job_of(spark, out, state, [monitor], flow={"rows": BRIEF})
    job.process_all_available(PATIENCE)
    known = job.controllers["monitor"]
    journal = job._parts.journal

    def idle() -> bool:
        sent = journal.state.board.seats["monitor"].operation
        return bool(known.state["operations"]) and sent is not None and sent.timestep is None

    until(idle, "the last operation waits for rows that do not come")
    with job.serve(port=0) as server, client_of(server, PATIENCE) as client:
        page = client.get("/metrics").text
    shown = {
        sample.labels["name"]: sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == "rechannel_controller_value"
    }
    figures, metrics = known.state["operators"]["followed"], known.status.metrics
    operations = known.state["operations"]
    job.stop(PATIENCE)
    assert (states(job), outputs(out)) == briefly_undisturbed
    latest = figures["latest"]
    assert (latest["rows"], latest["tasks"]) == (PER_TIMESTEP, 2)
    assert sum(rows for _, rows in latest["heaviest"]) >= 3 * (PER_TIMESTEP // 97)
    share = latest["busiest_rows"] / latest["rows"]
    assert 0.5 <= share < 1
    assert metrics == {
        "busiest_task_share": {"followed": share},
        "slowest_task_p99_ms": {"followed": figures["p99_ms"]},
    }
    assert shown == {name: values["followed"] for name, values in metrics.items()}
    notes = [
        event.data
        for event in read_events(state / "telemetry")
        if isinstance(event, Note) and event.topic == "controller"
    ]
    assert len(notes) == operations
    assert notes[-1] == {"controller": "monitor", "metrics": metrics}


def of_first_task() -> list[int]:
    """Accounts that one of two tasks has at the beginning, in several bins."""
    accounts = list(range(97))
    hashes = hash_columns([pa.array(accounts, pa.int64())])
    tasks = Routing.even(bins=BINS, tasks=2).task_of(hashes).tolist()
    return [account for account, task in zip(accounts, tasks, strict=True) if task == 0]


HOT = of_first_task()


def skewed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Bookings of which three in four are of the first task's accounts."""
    account = batch.column("account").to_numpy()
    hot = np.array(HOT)[account % len(HOT)]
    mixed = np.where(batch.column("number").to_numpy() % 4 == 0, account, hot)
    return batch.set_column(1, "account", pa.array(mixed))


def skew_under(routing: Routing) -> float:
    """Skew of what the source has."""
    accounts = skewed(entries(0, PER_TIMESTEP)).column("account")
    bins = [routing.bin_of(int(each)) for each in hash_columns([accounts])]
    return skew_of(routing, np.bincount(bins, minlength=routing.bins).tolist())


@pytest.mark.slow
def test_balance_evens_out_a_skewed_stream(spark, tmp_path: Path):
    balance = rc.control.library.Balance(operators=["followed"], cool_down=2)
    jobs = {}
    for name, controllers in (("alone", []), ("balanced", [balance])):
        place = tmp_path / name
        job = job_of(
            spark, place / "out", place / "state", controllers, flow={"front": skewed}, bins=BINS
        )
        job.process_all_available(PATIENCE)
        job.stop(PATIENCE)
        jobs[name] = job
    before, after = (job.configuration.operators["followed"].routing for job in jobs.values())
    assert before is not None
    assert after is not None
    assert skew_under(before) > 0.5  # the stream is skewed
    assert skew_under(after) < 0.3
    first, *_ = jobs["balanced"].history()
    assert first.cause.startswith("controller 'balance': skew 0.")
    one, other = ((states(job), outputs(tmp_path / name / "out")) for name, job in jobs.items())
    assert one == other


@pytest.mark.slow
def test_batch_interval_finds_an_interval(spark, state, out, undisturbed):
    auto = rc.control.library.BatchInterval(least_ms=30)
    job = job_of(spark, out, state, [auto], interval_ms=0)
    job.process_all_available(PATIENCE)
    job.stop(PATIENCE)
    assert (states(job), outputs(out)) == undisturbed
    history = job.history()
    assert history
    assert {record.phase for record in history} == {"done"}
    assert all(record.cause.startswith("controller 'batchinterval'") for record in history)
    assert job.configuration.interval_ms >= 30


@pytest.mark.slow
def test_guard_takes_a_bad_change_back(spark, state, out, undisturbed):
    guard = rc.control.library.Guard(window=3, settle=1)
    job = job_of(spark, out, state, [guard], flow={"behind": Slowly(0.15)})
    first = job.configuration.operators["balances"]
    until(lambda: job.status.timestep >= 4, "there are timesteps before the change")
    job.reconfigure(rc.changes.rescale("balances", 12)).wait(PATIENCE)
    until(lambda: len(job.history()) == 2, "the change is taken back")
    job.process_all_available(PATIENCE)
    job.stop(PATIENCE)
    assert (states(job), outputs(out)) == undisturbed
    bad, back = job.history()
    assert (bad.phase, back.phase) == ("done", "done")
    assert back.cause.startswith("controller 'guard': takes r1 back: latency ")
    last = job.configuration.operators["balances"]
    assert (last.tasks, last.routing) == (first.tasks, first.routing)
    assert job.controllers["guard"].status.requests == 1
