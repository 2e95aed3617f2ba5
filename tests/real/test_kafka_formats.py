"""Records of several versions of a schema, with bad ones between them: exact over a restart."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.job import InProcess
from rechannel.kernels.functions.formats.framing import framing
from tests.support.messages import add, classes, file
from tests.support.schema_registry import SchemaRegistry, schema_registry

ROWS, USERS, PARTITIONS, BAD = 6_000, 13, 3, 7
"""Every BAD-th record is none."""


def avro(registry: SchemaRegistry) -> tuple[Any, Any]:
    """A format, and what makes the record of a number."""
    user, n, note = ({"name": name, "type": "string"} for name in ("user", "n", "note"))
    n["type"] = "long"
    schemas = [
        {"type": "record", "name": "Event", "fields": fields}
        for fields in ([user, n], [note, n, user])
    ]
    ids = [registry.register("in-value", each) for each in schemas]

    def record(number: int) -> bytes:
        out = io.BytesIO()
        row = {"user": f"u{number % USERS}", "n": number, "note": "x"}
        fastavro.schemaless_writer(out, schemas[number % 2], row)
        return framing(ids[number % 2]) + out.getvalue()

    return rc.formats.avro(schemas[0], registry=registry.url), record


def protobuf(registry: SchemaRegistry) -> tuple[Any, Any]:
    """A format, and what makes the record of a number."""
    files = [file(), file()]
    files[1].message_type.add(name="Other")
    for of in files:
        message = of.message_type.add(name="Event")
        add(message, "user", "string", 1)
        add(message, "n", "int64", 2)
    add(files[1].message_type[1], "note", "string", 3)
    made = [classes(of, "shop.Event")[0] for of in files]
    heads = [
        framing(registry.register("in-value", of.SerializeToString(), "PROTOBUF")) + indexes
        for of, indexes in zip(files, (b"\0", b"\2\2"), strict=True)
    ]

    def record(number: int) -> bytes:
        more = {"note": "x"} if number % 2 else {}
        message = made[number % 2](user=f"u{number % USERS}", n=number, **more)
        return heads[number % 2] + message.SerializeToString()

    return rc.formats.protobuf(made[0], registry=registry.url), record


def fill(bootstrap: str, record: Any, numbers: range) -> None:
    # What is sent again overtakes nothing: the offset of a record tells its number.
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in numbers:
        value = record(number)
        producer.produce(
            "in", value[:-1] if number % BAD == 0 else value, partition=number % PARTITIONS
        )
    assert producer.flush(60) == 0


@pytest.mark.parametrize("of", [avro, protobuf])
def test_a_job_reads_every_version_and_keeps_what_is_none(own_kafka, tmp_path, of):
    own_kafka.create("in", PARTITIONS)
    with schema_registry() as registry:
        form, record = of(registry)
        letters = list[dict[str, Any]]()
        for numbers in (range(ROWS // 2), range(ROWS // 2, ROWS)):
            fill(own_kafka.bootstrap, record, numbers)
            source = rc.read().kafka(own_kafka.bootstrap, "in", per_timestep=500, name="in")
            events = source.decode(form, on_error="dead_letter", name="events")
            totals = events.key_by("user").aggregate(n=agg.count(), sum=agg.sum("n"), name="totals")
            flows = [
                totals.write.noop(name="out"),
                events.dead_letters.write.memory("bad", name="bad"),
            ]
            job = rc.Job("formats", flows, state=tmp_path / "state").start(in_process=InProcess())
            job.process_all_available()
            letters += job.memory("bad").to_pylist()
            found = {row["user"]: (row["n"], row["sum"]) for row in job.state("totals").to_pylist()}
            job.stop()
        assert len([each for each in registry.asked if "/ids/" in each]) == 2
    good = [number for number in range(ROWS) if number % BAD]
    assert found == {
        f"u{user}": (len(of_user), sum(of_user))
        for user in range(USERS)
        if (of_user := [number for number in good if number % USERS == user])
    }
    bad = [json.loads(each["row"]) for each in letters]
    numbers = [row["offset"] * PARTITIONS + row["partition"] for row in bad]
    assert sorted(numbers) == list(range(0, ROWS, BAD))
