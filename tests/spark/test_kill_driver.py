"""A driver that is killed at any moment goes on where it was, as if nothing had happened."""

import random
import signal
import time

import pytest

from tests.spark.programs import (
    PATIENCE,
    journal_of,
    ledger,
    outputs,
    run,
    run_in_process,
    session,
    states,
    until,
)

PER_TIMESTEP = 400


def drive(place, rows, in_flight):
    """Process everything there is. The process is killed somewhere in between."""
    flows = ledger(f"{place}/out", rows=rows, per_timestep=PER_TIMESTEP)
    job = run(session(place), flows, f"{place}/state", in_flight=in_flight)
    return job.status.timestep


def moments(number, seed):
    """(timesteps that are committed first, seconds that pass then) of some random kills."""
    choose = random.Random(seed)
    return [(choose.choice([0, 0, 1, 2]), choose.uniform(0, 0.3)) for _ in range(number)]


def wait_for_moment(driver, state, epoch, moment):
    """Wait until a driver has opened the journal, committed some timesteps, and some time has passed."""
    commits, seconds = moment

    def opened():
        assert driver.running, driver.errors()
        return state.exists() and journal_of(state).epoch > epoch

    until(opened, "a driver opens the journal")
    first = journal_of(state).last_committed or 0
    until(lambda: (journal_of(state).last_committed or 0) >= first + commits, "timesteps commit")
    time.sleep(seconds)


@pytest.mark.parametrize("in_flight", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_a_killed_driver_goes_on(child, tmp_path, thorough, in_flight):
    kills = 25 if thorough else 1
    timesteps = 3 * kills + 4
    rows = PER_TIMESTEP * timesteps
    undisturbed = run_in_process(
        ledger(tmp_path / "a/out", rows=rows, per_timestep=PER_TIMESTEP),
        tmp_path / "a/state",
    )
    place, interrupted = tmp_path / "b", []
    for moment in moments(kills, seed=kills + 2 * in_flight):
        before = journal_of(place / "state") if place.exists() else None
        driver = child(drive, place=str(place), rows=rows, in_flight=in_flight)
        wait_for_moment(driver, place / "state", before.epoch if before else 0, moment)
        assert driver.running
        assert driver.kill() == -signal.SIGKILL
        after = journal_of(place / "state")
        assert not after.closed, "the driver had ended of its own will"
        interrupted.append(len(after.open_intents) + len(after.unpublished))
    assert after.epoch == kills
    assert after.last_committed < timesteps
    assert any(interrupted), "every kill happened to hit between two timesteps"
    last = child(drive, place=str(place), rows=rows, in_flight=in_flight)
    assert last.result(PATIENCE) == timesteps
    assert journal_of(place / "state").closed
    resumed = run_in_process(
        ledger(place / "out", rows=rows, per_timestep=PER_TIMESTEP), place / "state"
    )
    assert resumed.status.timestep == timesteps
    assert states(resumed) == states(undisturbed)
    expected = outputs(tmp_path / "a/out")
    assert sorted(map(len, expected.values())) == [timesteps, timesteps]
    assert outputs(place / "out") == expected
