"""The page on Kafka, with brokers."""

from __future__ import annotations

import io
import json

import fastavro
from confluent_kafka import Producer

from rechannel.kernels.functions.formats.framing import framing
from tests.pages import run_page
from tests.real.kafka_programs import contents
from tests.support.schema_registry import SchemaRegistry, schema_registry


def orders(registry: SchemaRegistry) -> list[bytes]:
    """Two versions of a schema, and a bad record between them."""
    user, at = {"name": "user", "type": "string"}, {"name": "at", "type": "long"}
    note = {"name": "note", "type": "string"}
    old, new = (
        {"type": "record", "name": "Order", "fields": fields}
        for fields in ([user, at], [user, note, at])
    )
    ids = [registry.register("orders-value", each) for each in (old, new)]

    def written(version: int, **row: object) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, (old, new)[version], row)
        return framing(ids[version]) + out.getvalue()

    return [
        written(0, user="ann", at=1_000),
        b"not Avro",
        written(1, user="bob", at=2_000, note="x"),
        written(1, user="ann", at=3_000, note="y"),
    ]


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

    own_kafka.create("orders")
    own_kafka.create("counts")
    with schema_registry() as registry:
        for value in orders(registry):
            producer.produce("orders", value)
        assert producer.flush(30) == 0
        answers = run_page(
            "kafka", state=tmp_path / "state", brokers=own_kafka.bootstrap, registry=registry.url
        )
        assert registry.subjects.keys() == {"orders-value", "counts-value"}
    assert answers == 3
    assert {row["user"]: row["sum"] for row in contents(own_kafka.bootstrap, "totals")} == {
        "ann": 9,
        "bob": 5,
    }
