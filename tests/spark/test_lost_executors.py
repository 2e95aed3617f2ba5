"""Executors die at any moment: the job goes on, exactly, with three times as many tasks as there are cores."""

import random
import time

import numpy as np
import pytest

import rechannel as rc
from tests.spark.losing import PER_TIMESTEP, executors, two_hosts
from tests.spark.programs import PATIENCE, journal_of, until

TASKS = 6


def slowly(key, state, rows):
    """A total, and every task takes long enough to be hit."""
    if key < 8:
        time.sleep(0.25)
    return (state or 0) + sum(rows["v"])


def beyond(job, timestep):
    """Whether there is nothing to wait for."""
    return job.status.timestep > timestep or not job.is_active


def drive(place, timesteps, kills, seed):
    """Run a job on two hosts of one core while its executors are killed; what became of it."""
    choose = random.Random(seed)
    with two_hosts(place, timesteps) as (_, keyed):
        totals = keyed.track(slowly, state="total BIGINT", name="totals")
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
