"""A job on Spark that is fed over HTTP."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pyarrow.parquet as pq
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.ingest.server import serve_log
from rechannel.model.ddl import schema_of
from rechannel.sources.ingest import positions
from tests.spark.programs import PATIENCE, start
from tests.support.ingesting import Producer, posted, reader_of, writer_of

PRODUCERS, REQUESTS, ROWS = 3, 20, 7


def test_rows_are_counted_once_while_they_arrive_and_the_job_is_changed(spark, tmp_path):
    log = tmp_path / "log"
    with serve_log(str(log), schema=schema_of("n BIGINT NOT NULL"), port=0) as server:
        rows = rc.read().ingested(log, per_timestep=50, name="in")
        counts = rows.key_by("n").aggregate(n_rows=agg.count(), name="counts", tasks=2)
        doubled = rows.transform(lambda frame: frame.selectExpr("n", "n * 2 AS twice"))
        flows = [counts, doubled.write.parquet(str(tmp_path / "out"), name="out")]
        job = start(spark, flows, tmp_path / "state", name="ingest")

        def send(number: int) -> None:
            with Producer(server) as producer:
                for sequence in range(1, REQUESTS + 1):
                    first = (number * REQUESTS + sequence) * ROWS
                    numbers = range(first, first + ROWS)
                    for _ in range(2):
                        status, _ = producer.send(numbers, producer=f"p{number}", sequence=sequence)
                        assert status == 200

        with ThreadPoolExecutor(PRODUCERS) as pool:
            sending = [pool.submit(send, number) for number in range(PRODUCERS)]
            job.reconfigure(rc.changes.rescale("counts", 3)).wait(PATIENCE)
            for one in sending:
                one.result()
        job.process_all_available(PATIENCE)
        state = job.state("counts").collect()
        job.stop(PATIENCE)
    expected = range(ROWS, (PRODUCERS * REQUESTS + 1) * ROWS)
    assert sorted(row.n for row in state) == [*expected]
    assert {row.n_rows for row in state} == {1}
    out = pq.read_table(tmp_path / "out", partitioning=None).to_pylist()
    assert Counter((row["n"], row["twice"]) for row in out) == Counter((n, 2 * n) for n in expected)


@pytest.mark.parametrize("size", [4, 1_000])
def test_a_frame_has_the_rows_of_the_splits(spark, tmp_path, monkeypatch, size):
    monkeypatch.setattr(positions, "SPLIT_ROWS", size)
    writer = writer_of(tmp_path / "log")
    for first in range(0, 30, 3):
        writer.keep([posted(range(first, first + 3))])
    reader = reader_of(tmp_path / "log", per_timestep=23)
    begin = reader.initial()
    end = reader.latest(begin, 0)
    layout = reader.layout(begin, end)
    frame = reader.frame(spark, begin, end, layout)
    assert frame.rdd.getNumPartitions() == len(layout) == (6 if size == 4 else 1)
    assert sorted(row.n for row in frame.collect()) == [*range(23)]
