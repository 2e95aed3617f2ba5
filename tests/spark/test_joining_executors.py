"""An executor that replaces a lost one runs tasks of its own before those of the stream, and then does its share."""

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.spark.private_executors import Executors
from tests.spark.losing import KEYS, PER_TIMESTEP, executors, numbers, two_hosts
from tests.spark.programs import PATIENCE, until

pytestmark = pytest.mark.slow

TIMESTEPS, AFTER, ROUNDS = 2_000, 12, 5


def drive(place):
    """Kill an executor again and again under a stream that has copies of slow tasks; who did what."""
    shares = []
    with two_hosts(place, TIMESTEPS) as (spark, keyed):
        totals = keyed.aggregate(total=agg.sum("v"), name="totals")
        settings = rc.Settings(tasks=2, interval_ms=200)
        job = rc.Job(
            "totals", totals.write.noop(), state=f"{place}/state", settings=settings
        ).start()
        alive = Executors(spark)
        until(lambda: job.status.timestep > AFTER, "timesteps commit")
        for _ in range(ROUNDS):
            until(lambda: len(alive.alive()) == 2, "two executors")
            known = {each.id for each in alive.alive()}
            executors(place)[0].kill()
            (new,) = until(
                lambda known=known: {each.id for each in alive.alive()} - known, "a new one"
            )
            first = f"rechannel: first tasks of executor {new}"
            until(lambda first=first: first in descriptions(spark), "its first tasks run")
            now = job.status.timestep
            until(lambda now=now: job.status.timestep > now + AFTER, "timesteps commit")
            done = store_counts(spark)
            until(lambda now=now: job.status.timestep > now + 2 * AFTER, "timesteps commit")
            shares.append(store_counts(spark)[new] - done[new])
        job.stop(PATIENCE)
        timestep = job.status.timestep
        total = job.state("totals").selectExpr("sum(total)").collect()[0][0]
    return {"shares": shares, "timestep": timestep, "total": int(total)}


def descriptions(spark):
    """What jobs that have begun are described as."""
    found = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    texts = [found.apply(number).description() for number in range(found.size())]
    return {text.get() for text in texts if text.isDefined()}


def store_counts(spark):
    """Tasks that have ended well, by executor."""
    found = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    each = [found.apply(number) for number in range(found.size())]
    return {str(one.id()): int(one.completedTasks()) for one in each}


def test_a_replacement_does_its_share(child, tmp_path):
    seen = child(drive, place=str(tmp_path)).result(PATIENCE)
    assert len(seen["shares"]) == ROUNDS
    assert min(seen["shares"]) >= AFTER // 2, "copies elsewhere won against all of its tasks"
    rows = numbers(0, seen["timestep"] * PER_TIMESTEP)
    assert seen["total"] == sum(rows.column("v").to_pylist())
    assert len(set(rows.column("k").to_pylist())) == KEYS
