"""A cancelled timestep is run again while an old task of it still writes: what that one writes is nobody's."""

import pytest

from rechannel.errors import TimestepError
from tests.spark.holds import Holding, Marks
from tests.spark.programs import (
    PATIENCE,
    PER_TIMESTEP,
    TIMESTEPS,
    as_it_is,
    follow,
    journal_of,
    ledger,
    outputs,
    run,
    session,
    start,
    states,
    until,
    written_by,
)

FIRST = 3
"""Timesteps that are committed before."""


class HoldingUpdate(Holding):
    """An update that holds the task of account 0, which has written nothing yet."""

    def __call__(self, key, state, rows):
        return super().__call__((key, state, rows)) if key == 0 else follow(key, state, rows)


def followed(arguments):
    """What it does when it does not hold."""
    return follow(*arguments)


def drive(place):
    """Cancel a timestep whose task is held, start again, let both write; what was seen of it."""
    out, state = f"{place}/out", f"{place}/state"
    old, new = Marks(f"{place}/old"), Marks(f"{place}/new")
    # Spark gives a cancelled Python task two seconds before it kills its worker.
    spark = session(place, spark__python__task__killTimeout="3600s")
    run(spark, ledger(out, rows=FIRST * PER_TIMESTEP), state)

    old.say("armed")
    job = start(spark, ledger(out, update=HoldingUpdate(old.place, followed)), state)
    (held,) = until(lambda: old.of("held"), "a task holds")
    spark.sparkContext.cancelAllJobs()
    try:
        job.await_termination(PATIENCE)
        failure = None
    except TimestepError as error:
        failure = str(error)
    uncommitted = [intent.timestep for intent in journal_of(state).open_intents]

    new.say("armed")
    job = start(spark, ledger(out, front=Holding(new.place, as_it_is)), state)
    until(lambda: new.of("held"), "the timestep runs again")
    before = written_by(held, state)
    old.say("go")
    late = until(lambda: written_by(held, state), "the old task writes")
    during = [intent.timestep for intent in journal_of(state).open_intents]
    new.say("go")
    job.process_all_available(PATIENCE)
    job.stop()
    return {
        "failure": failure,
        "uncommitted": uncommitted,
        "before": before,
        "late": late,
        "during": during,
        "left": written_by(held, state),
        "timestep": job.status.timestep,
    }


@pytest.mark.slow
def test_old_tasks_of_a_cancelled_timestep_do_no_harm(spark, child, tmp_path, undisturbed):
    seen = child(drive, place=str(tmp_path)).result()
    assert "cancel" in seen["failure"]
    assert f"timestep {FIRST + 1}" in seen["failure"]
    assert seen["uncommitted"] == seen["during"] == [FIRST + 1]
    assert seen["before"] == []
    assert seen["late"], "no old task wrote while the new ones ran"
    assert seen["left"] == [], "files that nobody names are swept"
    assert seen["timestep"] == TIMESTEPS
    assert outputs(tmp_path / "out") == undisturbed[1]
    assert states(run(spark, ledger(tmp_path / "out"), tmp_path / "state")) == undisturbed[0]
