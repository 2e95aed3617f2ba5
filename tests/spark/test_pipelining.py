"""The driver goes on while tasks run: it opens timesteps, and answers requests.

With two timesteps in flight, the source tasks of one run beside the tasks of an operator of the one before: here the
operator's task of timestep 1 waits until a source task of timestep 2 has begun. That one reads rows that are pushed
only when the operator waits. If either waited for the other, the timestep would fail.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import rechannel as rc
from rechannel.testing import script
from tests.spark.holds import Marks
from tests.spark.programs import until

SECONDS = 60
FIRST, SECOND = 1, 2


def reads(place, batch):
    """A source task: marks that it has begun with the second batch."""
    if SECOND in batch.column("v").to_pylist():
        Marks(place).say("read")
    return batch


def meets(place, key, state, rows):
    """A task of the operator: holds the first batch until the second is read."""
    del key, state
    if rows["v"][-1] == FIRST:
        Marks(place).say("waits")
        until(lambda: Marks(place).said("read"), "timestep 2 is read meanwhile", SECONDS)
    return len(rows)


def met(place: Path, *, interval_ms: int, spark=None, beside: bool = False):
    """Run it; return the timesteps that were committed. beside: whether another source feeds the operator too."""
    connector = script("k BIGINT, v BIGINT", [[{"k": 1, "v": FIRST}]])
    marks = Marks(place / "marks")
    stream = rc.read(spark).memory(connector, name="in")
    read = stream.map_batches(partial(reads, marks.place), name="read")
    if beside:
        read = read.union(rc.read(spark).memory(script("k BIGINT, v BIGINT"), name="other"))
    operator = read.key_by("k").track(partial(meets, marks.place), state="n BIGINT", name="meets")
    settings = rc.Settings(tasks=1, bins=1, in_flight=2, interval_ms=interval_ms)
    program = rc.Job("met", operator, state=place / "state", settings=settings)
    job = program.start() if spark is not None else program.start(in_process=rc.InProcess())
    try:
        until(lambda: marks.said("waits"), "timestep 1 waits", SECONDS)
        connector.push([{"k": 1, "v": SECOND}])
        job.process_all_available(2 * SECONDS)
        return [each.timestep for each in job.recent_progress]
    finally:
        job.stop(SECONDS)


@pytest.mark.parametrize("interval_ms", [0, 50])
def test_in_process(tmp_path, interval_ms):
    assert met(tmp_path, interval_ms=interval_ms) == [1, 2]


def test_a_request_is_accepted_while_a_timestep_takes_long(tmp_path):
    # Timestep 1 goes on only after the request was accepted.
    connector = script("k BIGINT, v BIGINT", [[{"k": 1, "v": FIRST}]])
    marks = Marks(tmp_path / "marks")
    operator = rc.read().memory(connector, name="in").key_by("k").track(
        partial(meets, marks.place), state="n BIGINT", name="meets"
    )  # fmt: skip
    program = rc.Job("asked", operator, state=tmp_path / "state")
    job = program.start(in_process=rc.InProcess())
    try:
        until(lambda: marks.said("waits"), "timestep 1 waits", SECONDS)
        assert job.reconfigure(rc.changes.set_interval(7)).id
        assert job.status.timestep == 0
        marks.say("read")
        job.process_all_available(SECONDS)
        assert [each.timestep for each in job.recent_progress] == [1]
    finally:
        job.stop(SECONDS)


def test_on_spark(spark, tmp_path):
    assert met(tmp_path, interval_ms=50, spark=spark) == [1, 2]


def test_sources_that_share_an_exchange_start_ahead_too(spark, tmp_path):
    assert met(tmp_path, interval_ms=50, spark=spark, beside=True) == [1, 2]
