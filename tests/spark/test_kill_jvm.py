"""A job whose JVM is killed ends as failed, and goes on exactly where it was when it is started again."""

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest
from pyspark import SparkContext

import rechannel as rc
from rechannel.cli.app import execute
from rechannel.engine.journal.lease import read_lease
from rechannel.errors import RechannelError
from rechannel.state.stores.local import LocalStore
from tests.spark.programs import (
    PATIENCE,
    journal_of,
    ledger,
    outputs,
    run_in_process,
    session,
    start,
    states,
    tell,
)

PER_TIMESTEP = 400


def drive(place, rows):
    """Run a job until there is nothing left, or its JVM has died; how it ended."""
    spark = session(place)
    flows = ledger(f"{place}/out", rows=rows, per_timestep=PER_TIMESTEP)
    job = start(spark, flows, f"{place}/state")
    tell(jvm=spark.sparkContext._gateway.proc.pid)
    try:
        job.process_all_available()
    except RechannelError:
        tell(died=time.time())
    else:
        job.stop()
    return {
        "active": job.is_active,
        "message": job.status.message,
        "timestep": job.status.timestep,
        "lease": read_lease(LocalStore(Path(place) / "state")) is not None,
        "calls": [raised(call, job) for call in (await_end, stop, drain, change, metrics)],
    }


def await_end(job):
    job.await_termination()


def stop(job):
    job.stop()


def drain(job):
    job.process_all_available()


def change(job):
    job.reconfigure(rc.changes.set_interval(1))


def metrics(job):
    assert not job.status.active
    assert job.last_progress is None or job.last_progress.timestep > 0


def raised(call, job):
    try:
        call(job)
    except RechannelError as error:
        return type(error).__name__
    return None


@pytest.mark.slow
def test_a_job_whose_jvm_is_killed_fails_and_goes_on_when_it_is_started_again(child, tmp_path):
    kills = 20
    timesteps = 3 * kills + 6
    rows = PER_TIMESTEP * timesteps
    flows = ledger(tmp_path / "a/out", rows=rows, per_timestep=PER_TIMESTEP)
    undisturbed = run_in_process(flows, tmp_path / "a/state")
    place, choose, took = tmp_path / "b", random.Random(kills), []
    for _ in range(kills):
        driver = child(drive, place=str(place), rows=rows)
        jvm = driver.hear("jvm")
        time.sleep(choose.uniform(0, 1.0))
        os.kill(jvm, signal.SIGKILL)
        killed = time.time()
        took.append(driver.hear("died") - killed)
        ended = driver.result()
        assert ended["active"] is False
        assert ended["lease"] is False
        assert "has ended by signal SIGKILL" in ended["message"], ended["message"]
        assert "\n" not in ended["message"]
        assert ended["calls"] == [*["SessionError"] * 3, "RefusedError", None]
        assert not journal_of(place / "state").closed
    print(f"JVMs killed: {kills}, jobs ended within {max(took):.1f} s")
    assert journal_of(place / "state").epoch == kills
    assert (journal_of(place / "state").last_committed or 0) < timesteps
    last = child(drive, place=str(place), rows=rows).result(PATIENCE)
    assert (last["message"], last["timestep"]) == ("stopped", timesteps)
    flows = ledger(place / "out", rows=rows, per_timestep=PER_TIMESTEP)
    resumed = run_in_process(flows, place / "state")
    assert states(resumed) == states(undisturbed)
    assert outputs(place / "out") == outputs(tmp_path / "a/out")


@pytest.mark.slow
def test_a_command_whose_jvm_is_killed_ends_with_a_code_and_a_reason(child, tmp_path):
    program = tmp_path / "clicks.py"
    program.write_text(PROGRAM)
    command = child(command_line, program=str(program), state=str(tmp_path / "state"))
    os.kill(command.hear("jvm"), signal.SIGKILL)
    assert command.result() == 2
    assert "has ended by signal SIGKILL" in command.errors()


PROGRAM = """
import os
import pyarrow as pa
import rechannel as rc


def clicks(start, stop):
    return pa.record_batch({"user": [f"u{n % 3}" for n in range(start, stop)]})


spark = rc.session("local[2]", spark__driver__memory="600m")
stream = rc.read(spark).generator(clicks, schema="user STRING", rows_per_second=100)
users = stream.key_by("user").aggregate(n=rc.aggregates.count(), name="users")
job = rc.Job("clicks", users, state=os.environ["STATE"])
"""


def command_line(program, state):
    """`rechannel run`; its exit code."""
    os.environ["STATE"] = state

    def tell_when_it_runs():
        while not Path(state).exists() or not journal_of(state).last_committed:
            time.sleep(0.05)
        tell(jvm=SparkContext._gateway.proc.pid)

    threading.Thread(target=tell_when_it_runs, daemon=True).start()
    return execute(["run", program])
