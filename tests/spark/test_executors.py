"""An executor that dies takes its shuffle files with it; they are made again, and nobody notices."""

from collections import Counter

import psutil
import pytest

from tests.spark.holds import Holding, Marking, Marks
from tests.spark.programs import (
    PATIENCE,
    PER_TIMESTEP,
    TIMESTEPS,
    journal_of,
    ledger,
    outputs,
    run,
    session,
    states,
    until,
)

pytestmark = pytest.mark.slow

FIRST = 3 * PER_TIMESTEP


def drive(place):
    """Some timesteps on two executors, and then those in which tasks are held."""
    marks = Marks(f"{place}/marks")
    spark = session(place, "local-cluster[2,1,1024]", spark__executor__memory="512m")
    run(spark, ledger(f"{place}/out", rows=FIRST), f"{place}/state")
    marks.say("armed")
    flows = ledger(f"{place}/out", front=Marking(marks.place), behind=Holding(marks.place))
    return run(spark, flows, f"{place}/state").status.timestep


def executor_of(pid):
    """The executor that a Python worker belongs to."""
    parents = psutil.Process(int(pid)).parents()
    return next(p for p in parents if "CoarseGrainedExecutorBackend" in " ".join(p.cmdline()))


def made_again(marks):
    """Rows that more than one front task saw."""
    seen = Counter(mark["first"] for mark in marks.of("front"))
    return [first for first, times in seen.items() if times > 1]


def test_a_killed_executor_is_made_up_for(spark, child, tmp_path, undisturbed):
    driver = child(drive, place=str(tmp_path))
    marks = Marks(tmp_path / "marks")
    until(lambda: len(marks.of("held")) == 2 or not driver.running, "both tasks hold")
    assert driver.running, driver.errors()
    victim, survivor = (executor_of(mark["pid"]) for mark in marks.of("held"))
    assert victim != survivor
    assert not made_again(marks)
    victim.kill()
    until(lambda: made_again(marks), "front tasks run again for their shuffle files")
    until(lambda: len(marks.of("held")) == 3, "the lost task holds again")
    assert survivor.is_running()
    assert not victim.is_running()
    assert journal_of(tmp_path / "state").last_committed == FIRST // PER_TIMESTEP
    marks.say("go")
    assert driver.result(PATIENCE) == TIMESTEPS
    assert outputs(tmp_path / "out") == undisturbed[1]
    resumed = run(spark, ledger(tmp_path / "out"), tmp_path / "state")
    assert states(resumed) == undisturbed[0]
