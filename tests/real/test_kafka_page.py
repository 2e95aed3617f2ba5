"""The page on Kafka runs as it is written."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.real.kafka_programs import contents

PAGE = Path(__file__).parents[2] / "docs" / "kafka.md"


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

    blocks = re.findall(r"```(python|text)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {"state": tmp_path / "state", "brokers": own_kafka.bootstrap}
    (_, program), (_, says) = blocks
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(program, str(PAGE), "exec"), names)
    pattern = re.escape(says).replace(re.escape("<...>"), ".+?")
    assert re.fullmatch(pattern, out.getvalue()), out.getvalue()
    assert {row["user"]: row["sum"] for row in contents(own_kafka.bootstrap, "totals")} == {
        "ann": 9,
        "bob": 5,
    }
