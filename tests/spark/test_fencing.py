"""One driver at a time: a second one is refused or takes over, and the first can then commit nothing."""

import random
import signal
import time
from pathlib import Path

import pytest

from rechannel import job_seams
from rechannel.engine.journal.lease import FRESH_MS
from rechannel.errors import FencedError, StateInUseError
from tests.spark.programs import (
    PATIENCE,
    TIMESTEPS,
    journal_of,
    ledger,
    outputs,
    run,
    session,
    start,
    states,
    until,
)


def slowly(batch):
    """A front function that leaves time to take over."""
    time.sleep(0.3)
    return batch


def first_driver(place):
    """Run until something stops it; what that was."""
    job = start(session(place), ledger(f"{place}/out", front=slowly), f"{place}/state", in_flight=2)
    try:
        job.process_all_available(PATIENCE)
    except FencedError as error:
        return ["FencedError", str(error)]
    except Exception as error:
        return [type(error).__name__, str(error)]
    return ["nothing", ""]


def stopped(pid):
    """Whether the kernel says that a process is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.fixture
def first(child, tmp_path):
    """A driver that has committed some timesteps and has more to do."""
    driver = child(first_driver, place=str(tmp_path))
    state = tmp_path / "state"
    until(lambda: driver.running and state.exists() and journal_of(state).last_committed, "commits")
    return driver


def stop_at_random(driver, seed):
    time.sleep(random.Random(seed).uniform(0, 1))
    driver.send(signal.SIGSTOP)
    until(lambda: stopped(driver.pid), "the driver stops")


def check_fenced(driver, place, undisturbed, epoch):
    """The first driver wakes up, fails, and has changed nothing."""
    after = journal_of(place / "state")
    assert (after.epoch, after.closed, after.last_committed) == (epoch, True, TIMESTEPS)
    assert stopped(driver.pid)
    driver.send(signal.SIGCONT)
    kind, message = driver.result()
    assert (kind, f"took over in epoch {epoch}" in message) == ("FencedError", True), message
    assert journal_of(place / "state") == after
    assert outputs(place / "out") == undisturbed[1]


@pytest.mark.slow  # in process, drivers are replaced in every run
@pytest.mark.parametrize("seed", range(4))
def test_a_driver_that_was_replaced_commits_nothing(spark, first, tmp_path, undisturbed, seed):
    refused = rf"process {first.pid} .*takeover=True"
    with pytest.raises(StateInUseError, match=refused):
        start(spark, ledger(tmp_path / "out"), tmp_path / "state")
    stop_at_random(first, seed)
    assert not journal_of(tmp_path / "state").closed
    assert journal_of(tmp_path / "state").last_committed < TIMESTEPS
    with pytest.raises(StateInUseError, match=refused):
        start(spark, ledger(tmp_path / "out"), tmp_path / "state")
    assert journal_of(tmp_path / "state").epoch == 1
    job = start(spark, ledger(tmp_path / "out"), tmp_path / "state", takeover=True)
    job.process_all_available(PATIENCE)
    job.stop()
    assert (states(job), outputs(tmp_path / "out")) == undisturbed
    check_fenced(first, tmp_path, undisturbed, epoch=2)
    assert states(job) == undisturbed[0]


@pytest.mark.slow
def test_a_driver_without_a_sign_is_replaced_without_asking(
    spark, first, tmp_path, undisturbed, monkeypatch
):
    stop_at_random(first, 99)
    ahead = FRESH_MS + 1
    monkeypatch.setattr(job_seams, "wall_clock", lambda: time.time() * 1e3 + ahead)
    job = run(spark, ledger(tmp_path / "out"), tmp_path / "state")
    assert states(job) == undisturbed[0]
    check_fenced(first, tmp_path, undisturbed, epoch=2)
