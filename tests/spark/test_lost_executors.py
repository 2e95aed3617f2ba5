"""Executors die at any moment: the job goes on, exactly, with three times as many tasks as there are cores."""

import random
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.testing.loopback import Host, loopback
from tests.spark.children import environment
from tests.spark.programs import PATIENCE, journal_of, session, until

TASKS, KEYS, PER_TIMESTEP = 6, 1000, 1000


def numbers(start, stop):
    """Rows as a function of their number."""
    number = np.arange(start, stop, dtype=np.int64)
    return pa.record_batch({"k": number * 7919 % KEYS, "v": number * 31 % 1000})


def slowly(key, state, rows):
    """A total, and every task takes long enough to be hit."""
    if key < 8:
        time.sleep(0.25)
    return (state or 0) + sum(rows["v"])


def executors(place):
    """Processes of the executors of a cluster below a place."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        line = " ".join(process.info["cmdline"] or [])
        if "CoarseGrainedExecutorBackend" in line and str(process.info["cwd"]).startswith(place):
            found.append(process)
    return found


def beyond(job, timestep):
    """Whether there is nothing to wait for."""
    return job.status.timestep > timestep or not job.is_active


def drive(place, timesteps, kills, seed):
    """Run a job on two hosts of one core while its executors are killed; what became of it."""
    choose = random.Random(seed)
    path = environment()["PYTHONPATH"]
    hosts = [Host(address=f"127.0.0.{n}", environment={"PYTHONPATH": path}) for n in (2, 3)]
    with loopback(Path(place) / "cluster", hosts) as cluster:
        spark = session(
            place,
            cluster.url,
            **cluster.settings,
            spark__executor__memory="600m",
            spark__executorEnv__PYTHONPATH=path,
        )
        source = rc.read(spark).generator(
            numbers,
            schema="k BIGINT, v BIGINT",
            rows=timesteps * PER_TIMESTEP,
            per_timestep=PER_TIMESTEP,
            name="numbers",
        )
        totals = source.key_by("k").track(slowly, state="total BIGINT", name="totals")
        job = rc.Job(
            "totals",
            totals.write.parquet(f"{place}/out"),
            state=f"{place}/state",
            settings=rc.Settings(tasks=TASKS),
        ).start()
        killed, died = 0, []
        until(lambda: job.status.timestep, "a timestep commits")
        while killed < kills and job.is_active:
            time.sleep(choose.uniform(0.2, 2.0))
            alive = executors(place)
            if alive:
                choose.choice(alive).kill()
                killed += 1
                died.append(job.status.timestep)
                until(lambda: beyond(job, died[-1]), "the next timestep commits")
        try:
            job.process_all_available(PATIENCE)
            failure = None
        except rc.RechannelError as error:
            failure = str(error)
        status = job.status
        total = job.state("totals").selectExpr("sum(total)").collect()[0][0]
        if failure is None:
            job.stop(PATIENCE)
        spark.stop()
    return {
        "killed": killed,
        "at": died,
        "failure": failure,
        "retries": status.retries,
        "timestep": status.timestep,
        "total": int(total),
    }


@pytest.mark.slow
def test_lost_executors_do_not_end_a_job(child, tmp_path):
    kills, timesteps = 40, 60
    seen = child(drive, place=str(tmp_path), timesteps=timesteps, kills=kills, seed=1).result(7200)
    print(f"executors killed: {seen['killed']}, timesteps run again: {seen['retries']}")
    assert seen["failure"] is None
    assert seen["killed"] == kills, "the input ended before"
    assert max(seen["at"]) < timesteps
    assert seen["timestep"] == timesteps
    rows = np.arange(timesteps * PER_TIMESTEP) * 31 % 1000
    assert seen["total"] == int(rows.sum())
    assert journal_of(tmp_path / "state").epoch == 1
