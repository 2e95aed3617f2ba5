"""A Python worker that dies costs its task an attempt, and nothing else."""

import os
import signal

import pytest

from tests.spark.holds import HoldingFirst, Marks
from tests.spark.programs import (
    PATIENCE,
    PER_TIMESTEP,
    as_it_is,
    ledger,
    outputs,
    run,
    start,
    states,
    until,
    with_branch,
)


@pytest.mark.slow  # errors of tasks and killed drivers are in every run
@pytest.mark.parametrize("where", ["front", "behind"])
def test_killed_workers_are_made_up_for(spark, tmp_path, undisturbed, where):
    out, state, marks = tmp_path / "out", tmp_path / "state", Marks(tmp_path / "marks")
    run(spark, ledger(out, rows=3 * PER_TIMESTEP), state)
    plain = {"front": as_it_is, "behind": with_branch}[where]
    marks.say("armed")
    job = start(spark, ledger(out, **{where: HoldingFirst(marks.place, plain)}), state)
    held = until(lambda: len(marks.of("held")) == 2 and marks.of("held"), "both tasks hold")
    for mark in held:
        os.kill(int(mark["pid"]), signal.SIGKILL)
    marks.say("go")
    job.process_all_available(PATIENCE)
    assert not marks.of("went"), "a task outlived its worker"
    assert job.status.timestep > 3
    job.stop()
    assert outputs(out) == undisturbed[1]
    assert states(job) == undisturbed[0]
