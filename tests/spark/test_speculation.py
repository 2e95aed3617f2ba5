"""A copy of a straggling task wins: what the straggler has written is nobody's."""

import pytest

from rechannel.telemetry.spark_tasks import open_spark_tasks
from rechannel.testing.loopback import Host, loopback
from tests.spark.children import environment
from tests.spark.holds import Holding, Marks, me
from tests.spark.programs import (
    PATIENCE,
    PER_TIMESTEP,
    TIMESTEPS,
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

pytestmark = pytest.mark.slow

FIRST = 3
TASKS = 4


class Straggling(Holding):
    """Holds the first task that it meets, and marks a second attempt of it."""

    def __call__(self, batch):
        if any(mark["stage"] == str(me()["stage"]) for mark in self.marks.of("held")):
            self.marks.put("ran", **me())
        return super().__call__(batch)

    def holds(self):
        """Only once."""
        return super().holds() and me()["partition"] == 0 and not self.marks.of("held")


def drive(place, master):
    """Let a task straggle until its copy has won; what was seen of both."""
    out, state = f"{place}/out", f"{place}/state"
    marks = Marks(f"{place}/marks")
    spark = session(
        place, master, spark__executor__memory="512m", spark__executor__cores="1",
        spark__cores__max="2", spark__driver__host="127.0.0.1",
    )  # fmt: skip
    run(spark, ledger(out, rows=FIRST * PER_TIMESTEP), state, tasks=TASKS)
    marks.say("armed")
    job = start(spark, ledger(out, behind=Straggling(marks.place)), state, tasks=TASKS)
    (first,) = until(lambda: marks.of("held"), "a task straggles")
    left = written_by(first, state)
    until(lambda: job.status.timestep > FIRST or not job.is_active, "the timestep commits")
    marks.say("go")
    job.process_all_available(PATIENCE)
    job.stop()
    copies = [mark for mark in marks.of("ran") if mark["partition"] == first["partition"]]
    won = open_spark_tasks(spark).read_stage(int(first["stage"]))
    return {
        "first": first,
        "copies": copies,
        "winners": {str(task): metrics.speculative for task, metrics in won.items()},
        "left": left,
        "remain": written_by(first, state),
        "timestep": job.status.timestep,
    }


def test_the_copy_of_a_straggler_changes_nothing(spark, child, tmp_path, undisturbed):
    hosts = [Host(address="127.0.0.2"), Host(address="127.0.0.3")]
    with loopback(tmp_path / "cluster", hosts, environment()) as cluster:
        seen = child(drive, place=str(tmp_path), master=cluster.url).result(PATIENCE)
    assert len(seen["copies"]) == 1, "no copy ran"
    (copy,) = seen["copies"]
    assert copy["attempt"] == "1"
    assert seen["winners"][copy["task"]] is True, "the copy did not win"
    assert seen["first"]["task"] not in seen["winners"]
    assert seen["left"], "the straggler had written nothing"
    assert seen["remain"] == [], "files that nobody names are swept"
    assert seen["timestep"] == TIMESTEPS
    assert journal_of(tmp_path / "state").closed
    assert outputs(tmp_path / "out") == undisturbed[1]
    assert states(run(spark, ledger(tmp_path / "out"), tmp_path / "state")) == undisturbed[0]
