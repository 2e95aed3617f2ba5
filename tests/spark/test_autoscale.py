"""AutoScale on executors: it requests them with their tasks, and lets them go when the load falls."""

from __future__ import annotations

import time
from typing import Any

import pytest

import rechannel as rc
from rechannel.engine.spark.cluster import spark_cluster
from rechannel.testing import script
from tests.spark.programs import PATIENCE, session, until

pytestmark = pytest.mark.slow

MOST, INTERVAL_S, ROW_S, KEYS = 3, 1.5, 0.008, 64
BUSY, CALM = 250, 12
"""Rows per interval: 2 s of a core, and 0.1 s."""
STEERING = {"interval_s": 4.5, "warm_up_s": 3.0, "down_delay_s": 9.0}


def wait_and_count(frame: Any) -> dict[str, Any]:
    """Count rows by key, as a service would that takes `ROW_S` for each."""
    sizes = frame.sizes
    time.sleep(float(ROW_S * int(sizes.sum())))
    return {"n": frame.previous("n", 0) + sizes}


def driven(place: str) -> dict[str, Any]:
    """A load for which one executor is too few, and then one for which it is enough."""
    spark = session(place, f"local-cluster[{MOST},1,1024]", spark__executor__memory="512m")
    cluster = spark_cluster(spark)
    until(lambda: len(cluster.executors()) == MOST, "all executors")
    rows, pushed = script("k BIGINT"), 0
    counts = rc.read(spark).memory(rows, name="in").key_by("k")
    counts = counts.track_batches(wait_and_count, state="n BIGINT", name="counts", bins=64)
    settings = rc.Settings(tasks=1, interval_ms=int(INTERVAL_S * 1e3))
    job = rc.Job(
        "scaled", counts.write.noop(), state=f"{place}/state", settings=settings, spark=spark
    ).start()
    job.reconfigure(rc.changes.executors(1)).wait(PATIENCE)
    until(lambda: len(cluster.executors()) == 1, "one executor")
    scale = rc.control.library.AutoScale(
        executors=(1, MOST), cores_per_executor=1, max=2 * MOST, steering=STEERING
    )
    job.control(rc.control.install(scale, name="scale", seconds=60.0))

    def push(number: int, enough: Any) -> None:
        nonlocal pushed
        deadline = time.monotonic() + PATIENCE
        while not enough():
            assert time.monotonic() < deadline, job.controllers["scale"].state
            rows.push([{"k": (pushed + each) % KEYS} for each in range(number)])
            pushed += number
            time.sleep(INTERVAL_S)

    def settled(more: bool) -> bool:
        state = job.controllers["scale"].state
        number, tasks = len(cluster.executors()), job.configuration.operators["counts"].tasks
        done = state["requested"] is None
        return done and (number > 1 and tasks > 1 if more else number == 1)

    push(BUSY, lambda: settled(more=True))
    grown = len(cluster.executors())
    push(CALM, lambda: settled(more=False))
    job.process_all_available(PATIENCE)
    history = [str(each.change) for each in job.history()]
    decisions = [dict(each) for each in job.controllers["scale"].state["decisions"]]
    job.stop(PATIENCE)
    (found,) = job.state("counts").selectExpr("sum(n) AS n").collect()
    return {
        "grown": grown,
        "history": history,
        "decisions": decisions,
        "rows": (int(found["n"]), pushed),
    }


def test_executors_come_with_their_tasks_and_go_again(child, tmp_path):
    found = child(driven, place=str(tmp_path)).result(3 * PATIENCE)
    assert found["rows"][0] == found["rows"][1]
    by_itself = found["history"][1:]
    assert found["history"][0] == "executors(executors=1)"
    # 250 rows of 8 ms every 1.5 s, of which 80 % may be used, are 1.7 cores; what a task costs itself comes on top.
    assert found["grown"] in {2, 3}
    assert by_itself[0].startswith(f"executors(executors={found['grown']}), rescale(operator='")
    assert "rescale(operator='counts'" in by_itself[0]
    assert any("executors(executors=1)" in each for each in by_itself[1:])
    changed = [each for each in found["decisions"] if each["outcome"] == "changed"]
    assert changed[0]["executors"] == found["grown"]
    assert changed[0]["became"].endswith("is done")
