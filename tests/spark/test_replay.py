"""Replays on Spark: through workers, beside the running job, with DataFrame functions before and after operators."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812

import rechannel as rc
from rechannel import aggregates as agg
from tests.spark.programs import PATIENCE, PLAIN, published

pytestmark = pytest.mark.slow

TIMESTEPS, ROWS = 6, 200


def cheap(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pa.compute.less(batch["price"], 50))


def cheaper(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pa.compute.less(batch["price"], 20))


def digests(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file()
    }


def flows(spark, tmp_path):
    rows = rc.read(spark).files(
        str(tmp_path / "in"), format="parquet", schema="item BIGINT, price BIGINT",
        per_timestep=1, name="rows",
    )  # fmt: skip
    dear = rows.transform(lambda df: df.withColumn("price", F.col("price") % 97), name="dear")
    sold = dear.map_batches(cheap, schema="item BIGINT, price BIGINT", name="sold")
    sums = sold.key_by("item").aggregate(n=agg.count(), total=agg.sum("price"), name="sums")
    shown = sums.transform(lambda df: df.where("n % 2 = 1"), name="odd")
    return [shown.write.parquet(str(tmp_path / "out"), name="out")]


def test_a_replay_on_spark(spark, tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(TIMESTEPS):
        values = range(number * ROWS, (number + 1) * ROWS)
        table = pa.table({"item": [n % 11 for n in values], "price": [n * 31 for n in values]})
        pq.write_table(table, tmp_path / "in" / f"{number}.parquet")
    settings = rc.Settings(**{**PLAIN, "keep_versions": 50, "snapshot_every": 50})
    made = rc.Job(
        "sales", flows(spark, tmp_path), state=tmp_path / "state", settings=settings, spark=spark
    )
    job = made.start()
    job.reconfigure(rc.changes.rescale("sums", tasks=3), at=4)
    job.process_all_available(PATIENCE)
    assert job.status.timestep == TIMESTEPS
    assert job.configuration.operators["sums"].tasks == 3
    shown = published(tmp_path / "out")

    found = job.replay(range(1, TIMESTEPS + 1))
    assert found.equal
    assert [part.node for part in found.output] == ["sums"] * TIMESTEPS
    assert found.output[0].sinks == ("out",)
    assert sum(part.equal for part in found.output) > TIMESTEPS
    other = job.replay(range(3, TIMESTEPS + 1), logic={"sold": cheaper}, examples=1000)
    assert other.other_logic == ("sold",)
    assert all(part.missing for part in other.output)
    [state] = other.state
    now = {row["item"]: row["n.count"] for row in state.added_rows}
    then = {row["item"]: row["n.count"] for row in state.missing_rows}
    rows = [(n % 11, n * 31 % 97) for n in range(ROWS * TIMESTEPS)]
    first = Counter(item for item, price in rows[: 2 * ROWS] if price < 50)
    later = Counter(item for item, price in rows[2 * ROWS :] if price < 20)
    assert now == dict(first + later)
    assert then == dict(Counter(item for item, price in rows if price < 50))

    job.stop(PATIENCE)
    before = digests(tmp_path / "state")
    assert made.replay(2).equal
    assert digests(tmp_path / "state") == before
    assert published(tmp_path / "out") == shown
