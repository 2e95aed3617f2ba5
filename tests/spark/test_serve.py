"""A job on Spark that is changed over HTTP while it runs: nothing of its result changes."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

import rechannel as rc
from rechannel import aggregates as agg
from tests.support.asking import client_of

PATIENCE = 300
ROWS, PER_TIMESTEP, USERS = 4000, 100, 37


def clicks(start, stop):
    return pa.record_batch({"user": [f"u{n % USERS}" for n in range(start, stop)]})


@pytest.fixture
def job(spark, state):
    stream = rc.read().generator(
        clicks, schema="user STRING", per_timestep=PER_TIMESTEP, rows=ROWS, name="clicks"
    )
    counts = stream.key_by("user").aggregate(n=agg.count(), name="counts", tasks=2)
    settings = rc.Settings(durability=rc.Durability.PROCESS, bins=16)
    running = rc.Job("clicks", counts, state=state, settings=settings, spark=spark).start()
    yield running
    running.stop(PATIENCE)


def test_a_job_is_changed_over_http(job):
    with (
        job.serve(port=0) as server,
        client_of(server, PATIENCE) as client,
    ):
        change = {"kind": "rescale", "operator": "counts", "tasks": 4}
        plan = client.post("/plan", json={"change": change, "strategy": {"kind": "fluid"}}).json()
        assert plan["affected"][0]["bins"] == 8
        answer = client.post("/reconfigure", json={"plan": plan, "cause": "a test"})
        assert answer.status_code == 202, answer.text
        id_ = answer.json()["id"]
        deadline = time.monotonic() + PATIENCE
        while client.get(f"/reconfigurations/{id_}").json()["open"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert client.get(f"/reconfigurations/{id_}").json()["phase"] == "done"
        assert client.get("/status").json()["operators"]["counts"]["tasks"] == 4
        job.process_all_available(PATIENCE)
        figures = {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(client.get("/metrics").text)
            for sample in family.samples
        }
        assert figures["rechannel_timesteps_committed_total", "clicks"] == ROWS / PER_TIMESTEP
        assert figures["rechannel_operator_tasks", "clicks", "counts"] == 4
        assert figures["rechannel_operator_state_rows", "clicks", "counts"] >= USERS
    counted = {row.user: row.n for row in job.state("counts").collect()}
    assert counted == {f"u{u}": len(range(u, ROWS, USERS)) for u in range(USERS)}
