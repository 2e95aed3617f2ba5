"""Branches by SQL and by functions, and functions with a resource, on Spark."""

import os

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc

pytestmark = pytest.mark.spark

PATIENCE = 240


def numbers(start, stop):
    rows = range(start, stop)
    return pa.record_batch(
        {
            "n": list(rows),
            "price": pa.array([None if n % 7 == 0 else n % 10 for n in rows], pa.int64()),
        }
    )


def large(batch):
    return pc.greater(batch.column("n"), 150)


def opened():
    return {"process": os.getpid(), "calls": 0}


def counted(resource, batch):
    resource["calls"] += 1
    for name in ("process", "calls"):
        batch = batch.append_column(name, pa.array([resource[name]] * batch.num_rows, pa.int64()))
    return batch


@pytest.mark.slow  # in process, both are tested in every run
def test_each_row_is_in_one_branch_and_a_resource_outlives_timesteps(spark, tmp_path):
    stream = rc.read(spark).generator(
        numbers, schema="n BIGINT, price BIGINT", rows=300, per_timestep=60, name="numbers"
    )
    parts = stream.branch(
        cheap="price < 3", fair="price < 6", large=large, odd="n % 2 = 1", otherwise="others"
    )
    ends = [part.write.parquet(tmp_path / name, name=name) for name, part in parts.items()]
    called = stream.map_batches(
        counted, "n BIGINT, price BIGINT, process BIGINT, calls BIGINT", resource=opened
    )
    ends.append(called.write.parquet(tmp_path / "called", name="called"))
    settings = rc.Settings(tasks=1, bins=1)
    job = rc.Job("branches", ends, state=tmp_path / "state", settings=settings).start()
    try:
        job.process_all_available(PATIENCE)
    finally:
        job.stop(PATIENCE)

    def shown(name):
        return {row.n for row in spark.read.parquet(str(tmp_path / name)).collect()}

    def part_of(n):
        price = None if n % 7 == 0 else n % 10
        if price is not None and price < 6:
            return "cheap" if price < 3 else "fair"
        if n > 150:
            return "large"
        return "odd" if n % 2 else "others"

    for name in parts:
        expected = {n for n in range(300) if part_of(n) == name}
        assert expected
        assert shown(name) == expected
    rows = spark.read.parquet(str(tmp_path / "called"))
    assert rows.count() == 300
    by_process = rows.groupBy("process").agg({"calls": "max"}).collect()
    assert max(row["max(calls)"] for row in by_process) > 1
    assert os.getpid() not in {row.process for row in by_process}
