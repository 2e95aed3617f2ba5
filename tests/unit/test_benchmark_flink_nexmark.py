"""NEXMark on Flink: what is made of its answers, without a cluster."""

import re

import pytest

from benchmarks.nexmark.benchmark import BENCHMARK, OTHERS, overall, written_by_slot
from benchmarks.nexmark.events import EVENTS, Events
from benchmarks.nexmark.query import NAMES, query
from benchmarks.peers.flink import nexmark
from benchmarks.peers.flink.queries import COLUMNS, QUERIES, statements
from tests.unit.test_benchmark_comparisons import bench

READ = re.compile(r"(?:FROM |JOIN |TABLE |, (?=bid B))(?:read_)?(person|auction|bid)\b")


def test_batches_end_when_their_share_of_the_events_has_been_read_and_the_last_one_at_the_end():
    seen = [
        (900.0, 0),
        (1_100.0, 0),
        (1_200.0, 100),
        (1_300.0, 300),
        (1_400.0, 400),
        (1_500.0, 400),
    ]
    assert nexmark.boundaries(seen, 4, begin=1_000.0, end=1_600.0) == [
        1_000.0,
        1_200.0,
        1_250.0,
        1_300.0,
        1_600.0,
    ]


def test_what_was_seen_after_the_end_counts_as_seen_at_the_end():
    assert nexmark.boundaries([(2_000.0, 400)], 2, begin=1_000.0, end=1_600.0)[-1] == 1_600.0


def test_every_query_that_flink_runs_reads_the_kinds_that_ours_reads(tmp_path):
    assert set(OTHERS["flink"]) == set(QUERIES)
    assert set(NAMES) - set(QUERIES) == {"q6", "q13"}
    for name, text in QUERIES.items():
        assert set(READ.findall(text)) == set(query(name).reads), name
        assert text in statements(name, tmp_path)[-1]


def test_columns_are_those_of_the_events():
    for kind, columns in COLUMNS.items():
        names = [part.split()[0].strip("`") for part in columns.split(",")]
        assert names == Events().source(kind)(0, 0).schema.names


def test_slots_read_the_same_events_as_the_batches_of_the_other_side(tmp_path):
    import pyarrow.parquet as pq

    parameters = BENCHMARK.parameters(quick=True, overrides={"events": 1_000, "batches": 3})
    directory = written_by_slot(parameters, bench(tmp_path), {"bid"})
    parts = [pq.read_table(f"{directory}/bid/part-{part}.parquet") for part in range(2)]
    made = Events(rate=parameters["rate"]).source("bid")(0, 3 * 1_000 // EVENTS * 46)
    auctions = sorted(value for part in parts for value in part["auction"].to_pylist())
    assert auctions == sorted(made["auction"].to_pylist())
    for part in parts:
        times = part["dateTime"].to_pylist()
        assert times == sorted(times)


def test_rows_that_windows_dropped_are_counted():
    class Made:
        def ask(self, path):
            if "?get=" in path:
                return [{"id": "0.Window.numLateRecordsDropped", "sum": 3.0}]
            return [{"id": "0.Window.numLateRecordsDropped"}, {"id": "numRecordsIn"}]

    assert nexmark.late_rows(Made(), "j", {"vertices": [{"id": "a"}, {"id": "b"}]}) == 6


def test_a_job_that_fails_is_told_with_its_reason():
    class Made:
        def ask(self, path):
            if path.endswith("exceptions"):
                return {"exceptionHistory": "no such file"}
            return {"state": "FAILED", "vertices": []}

    with pytest.raises(RuntimeError, match="no such file"):
        nexmark.watch(Made(), "j", 10)


def test_engines_that_are_not_spark_have_a_mean_of_their_own():
    ratios = {"q5_hdfs": 4.0, "q5_flink": 2.0, "q5_flink_processor": 8.0, "q0_flink": 8.0}
    assert overall(ratios) == {
        "stateful_geometric_mean": 4.0,
        "worst": 4.0,
        "flink_geometric_mean": pytest.approx(4.0),
        "flink_processor_geometric_mean": pytest.approx(8.0),
    }
