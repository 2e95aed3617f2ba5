"""The page on Kafka, with brokers."""

from __future__ import annotations

import json

from confluent_kafka import Producer

from tests.pages import run_page
from tests.real.kafka_programs import contents


def test_the_page_runs_as_it_is_written(own_kafka, tmp_path):
    own_kafka.create("clicks", 2)
    own_kafka.create("totals")
    producer = Producer({"bootstrap.servers": own_kafka.bootstrap})
    rows = [("ann", 2), ("bob", 5), ("ann", 3), ("ann", 4)]
    for place, (user, amount) in enumerate(rows):
        value = json.dumps({"user": user, "amount": amount})
        producer.produce("clicks", value, partition=place % 2)
    producer.produce("clicks", "not JSON", partition=0)
    assert producer.flush(30) == 0

    answers = run_page("kafka", state=tmp_path / "state", brokers=own_kafka.bootstrap)
    assert answers == 1
    assert {row["user"]: row["sum"] for row in contents(own_kafka.bootstrap, "totals")} == {
        "ann": 9,
        "bob": 5,
    }
