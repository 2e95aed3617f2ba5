"""Totals per user from topic to topic on Flink: SQL of its own connector, state on the heap.

Every record makes a new total, which the sink writes at once (at least once), or in transactions that are committed
with each snapshot (exactly once).
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness import Measurement, Parameters
from benchmarks.kafka_topics import clocked_producer, create, waits
from benchmarks.peers.flink.cluster import cluster, heap_settings, submitted
from benchmarks.peers.flink.environment import CONNECTOR, archive, home, python

VERSION = "2.3.0"

RECORDS = """
CREATE TEMPORARY TABLE records (`user` BIGINT, created_ms BIGINT, amount BIGINT, text STRING) WITH (
  'connector' = 'kafka', 'topic' = '{topic}-in', 'properties.bootstrap.servers' = '{bootstrap}',
  'properties.group.id' = '{topic}', 'properties.fetch.max.wait.ms' = '5', 'scan.startup.mode' = 'earliest-offset',
  'format' = 'json'
)
"""
TOTALS = """
CREATE TEMPORARY TABLE totals (
  `user` BIGINT, n BIGINT, total BIGINT, latest_ms BIGINT, PRIMARY KEY (`user`) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'topic' = '{topic}-out', 'properties.bootstrap.servers' = '{bootstrap}',
  'properties.linger.ms' = '0', 'properties.transaction.timeout.ms' = '600000', 'key.format' = 'json',
  'value.format' = 'json', 'sink.delivery-guarantee' = '{guarantee}', 'sink.transactional-id-prefix' = '{topic}'
)
"""
QUERY = """
INSERT INTO totals
SELECT `user`, COUNT(*) AS n, SUM(amount) AS total, MAX(created_ms) AS latest_ms FROM records GROUP BY `user`
"""


def latency(parameters: Parameters) -> Measurement:
    """Follow a producer that keeps to the clock. guarantee: "at-least-once" or "exactly-once"."""
    bootstrap, scratch = parameters["bootstrap"], Path(parameters["scratch"])
    topic = scratch.parent.name.replace(" ", "-")
    for each in (f"{topic}-in", f"{topic}-out"):
        create(bootstrap, each, parameters["partitions"])
    names = {"topic": topic, "bootstrap": bootstrap, "guarantee": parameters["guarantee"]}
    where, settings = home(VERSION), flink_settings(parameters)
    with cluster(where, scratch, cluster_settings(parameters)) as made:
        given = {
            "settings": {
                **made.settings,
                **settings,
                "parallelism.default": str(parameters["tasks"]),
                "pipeline.jars": archive(CONNECTOR).as_uri(),
            },
            "statements": [each.format(**names) for each in (RECORDS, TOTALS, QUERY)],
        }
        script = Path(__file__).with_name("sql.py")
        with clocked_producer(bootstrap, f"{topic}-in", parameters):
            job = submitted(where, scratch, python=python(), script=script, given=given)
            exactly_once = parameters["guarantee"] == "exactly-once"
            found = waits(bootstrap, f"{topic}-out", parameters, committed=exactly_once)
            state = made.ask(f"/jobs/{job}")["state"]
            if state != "RUNNING":
                raise RuntimeError(f"the job is {state}: {made.ask(f'/jobs/{job}/exceptions')}")
    return {"waits": found}


def flink_settings(parameters: Parameters) -> dict[str, str]:
    """Of the job."""
    return {
        "execution.checkpointing.interval": str(parameters["checkpoint"]),
        "execution.buffer-timeout.interval": "1ms",
        "state.backend.type": "hashmap",
        "pipeline.object-reuse": "true",
    }


def cluster_settings(parameters: Parameters) -> dict[str, str]:
    """Of the cluster."""
    return {**heap_settings(parameters), **flink_settings(parameters)}
