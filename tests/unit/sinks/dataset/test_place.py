"""Rows of timesteps in a dataset: whose it is, which columns it has, how they are divided."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import DataflowError, OtherHistoryError, RefusedError
from rechannel.job import InProcess
from rechannel.sinks.dataset.outlet import DatasetOutlet
from rechannel.sinks.dataset.wanted import Wanted
from rechannel.sinks.outlet import SinkContext
from rechannel.state.stores.objects import ObjectStore
from rechannel.testing import script
from tests.datasets import Disk
from tests.publishing import SCHEMA, publish


def opened(path, *, job: str = "job", schema: pa.Schema = SCHEMA, **wanted):
    outlet = DatasetOutlet(path=str(path), wanted=Wanted(**wanted))
    writer = outlet.open(SinkContext(job=job, name="out", schema=schema))
    writer.begin()
    return writer


def test_a_timestep_is_published_once_however_often_it_is_published():
    disk = Disk()
    driver = disk.driver()
    driver.publish(0, (1, 1))
    driver.publish(0, (1, 1))
    disk.driver().publish(0, (1, 1))
    assert disk.rows() == [(1, 1)]
    assert disk.read().timestep == 0


def test_an_empty_timestep_makes_no_version():
    disk = Disk()
    driver = disk.driver()
    before = disk.versions()
    driver.publish(0)
    assert disk.versions() == before
    assert disk.read().timestep is None


def test_rows_say_which_timestep_they_are_of_only_if_that_is_asked_for(tmp_path):
    plain, told = tmp_path / "plain", tmp_path / "told"
    for path, metadata in ((plain, ()), (told, ("timestep", "digest", "published_at"))):
        writer = opened(path, metadata=metadata)
        publish(writer, 7, (1, 2))
        writer.close()
    assert rc.read_output(plain).table().to_pylist() == [{"k": 1, "n": 2}]
    row = rc.read_output(told).table().to_pylist()[0]
    assert row["timestep"] == 7
    assert row["digest"].endswith("d7")
    assert row["published_at"].tzinfo is not None


def test_metadata_that_rows_have_themselves_and_unknown_metadata_are_refused(tmp_path):
    with pytest.raises(DataflowError, match="metadata has 'offset'; it can have timestep"):
        DatasetOutlet(path="x", wanted=Wanted(metadata=("offset",)))
    with pytest.raises(DataflowError, match="rows have a column 'timestep' themselves"):
        opened(tmp_path, schema=pa.schema([("Timestep", pa.int64())]), metadata=("timestep",))


def test_files_have_about_the_size_and_at_most_the_rows_that_are_asked_for(tmp_path):
    some = [(n, n * 7919) for n in range(20_000)]
    by_rows, by_bytes = tmp_path / "rows", tmp_path / "bytes"
    for path, wanted in ((by_rows, {"rows": 3_000}), (by_bytes, {"target": 20_000})):
        writer = opened(path, rate=0, **wanted)
        publish(writer, 0, *some)
        writer.close()
    counts = [pq.read_metadata(each).num_rows for each in rc.read_output(by_rows).files]
    assert counts == [3_000] * 6 + [2_000]
    sizes = [each.size for each in rc.read_output(by_bytes).named]
    assert len(sizes) > 2
    assert max(sizes) < 3 * 20_000
    assert rc.read_output(by_bytes).table().num_rows == 20_000


def test_the_columns_of_a_later_program_are_added_and_another_type_is_refused(tmp_path):
    writer = opened(tmp_path)
    publish(writer, 0, (1, 1))
    writer.close()
    wider = pa.schema([("k", pa.int64()), ("city", pa.string())])
    writer = opened(tmp_path, schema=wider)
    publish(writer, 1, (2, "Oslo"), schema=wider)
    writer.close()
    output = rc.read_output(tmp_path)
    rows = [{"k": 1, "n": 1, "city": None}, {"k": 2, "n": None, "city": "Oslo"}]
    assert output.table().sort_by("k").to_pylist() == rows
    assert output.polars().collect().sort("k").to_dicts() == rows
    assert output.dataset().to_table().sort_by("k").to_pylist() == rows
    with pytest.raises(RefusedError, match=r"column 'n' is int64 in dataset .*, and string"):
        opened(tmp_path, schema=pa.schema([("n", pa.string())]))


def test_the_path_of_another_job_and_of_a_file_sink_are_refused(tmp_path):
    opened(tmp_path / "one").close()
    with pytest.raises(RefusedError, match="is that of 'rechannel-job-out'"):
        opened(tmp_path / "one", job="other")
    with pytest.raises(RefusedError, match="cannot get"):
        opened(tmp_path / "one", keys=("k",))
    (tmp_path / "two" / "timestep=000000000001").mkdir(parents=True)
    with pytest.raises(RefusedError, match="already holds timesteps"):
        opened(tmp_path / "two")
    flow = stream_of([{"k": 1, "n": 1}]).write.parquet(tmp_path / "one")
    with pytest.raises(RefusedError, match="claimed by dataset"):
        run(flow, tmp_path / "state")


def test_an_older_copy_of_the_state_directory_is_refused():
    disk = Disk(committed=5)
    driver = disk.driver()
    driver.publish(5, (1, 1))
    with pytest.raises(RefusedError, match="restored from an older copy"):
        disk.driver(committed=4)
    with pytest.raises(
        RefusedError, match="opened by a driver that this state directory does not know"
    ):
        disk.driver(epoch=0)
    again = disk.driver(committed=4, epoch=0, remove_later=True)
    again.publish(5, (2, 2), digest="e")
    assert disk.rows() == [(1, 1), (2, 2)]
    with pytest.raises(OtherHistoryError):
        again.publish(5, (3, 3), digest="f")


def test_a_driver_after_the_one_that_took_other_output_over_is_not_refused():
    disk = Disk(committed=5)
    for _ in range(3):
        disk.driver()
    # The state directory was restored from a copy: its journal begins to count epochs from 1 again.
    known: dict[int, str] = {}
    for epoch, more in enumerate(({"remove_later": True}, {}, {}), 1):
        known[epoch] = f"restored{epoch}"
        ledger = {"epoch": epoch, "opening": known[epoch], "openings": {**known}}
        disk.driver(**ledger, **more)
    with pytest.raises(RefusedError, match="opened by a driver that this state directory"):
        disk.driver(epoch=4, opening="stranger", openings={1: "restored1"})


def test_with_keys_no_other_history_is_published_over():
    """Its rows would count for later ones, as their timesteps are later."""
    disk = Disk(Wanted(keys=("k",)), committed=5)
    disk.driver(remove_later=True).publish(5, (1, 1))
    disk.driver(remove_later=True)
    for ledger in ({"committed": 4}, {"epoch": 0}):
        with pytest.raises(RefusedError, match=r"has keys, and .*: choose another path"):
            disk.driver(remove_later=True, **ledger)
    assert disk.rows() == [(1, 1)]


def test_what_a_crash_left_of_a_file_is_removed_by_the_next_driver(tmp_path):
    writer = opened(tmp_path)
    publish(writer, 0, (1, 1))
    writer.close()
    torn = tmp_path / "_files" / ".tmp-1-1"
    torn.write_bytes(b"half")
    opened(tmp_path).close()
    assert not torn.exists()
    assert rc.read_output(tmp_path).table().num_rows == 1


def test_partition_columns_that_are_no_keys_and_changes_without_keys_are_refused():
    with pytest.raises(DataflowError, match="partition column 'day' is no key"):
        DatasetOutlet(path="x", wanted=Wanted(keys=("k",), partitions=("day",)))
    with pytest.raises(DataflowError, match="name these with keys="):
        DatasetOutlet(path="x", wanted=Wanted(changes="change"))


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"target": 10}, "file_bytes"),
        ({"rows": 0}, "file_rows"),
        ({"rate": -1}, "compact"),
        ({"compression": "rar"}, "compression 'rar' is not one of"),
    ],
)
def test_sizes_are_checked(wanted, words):
    with pytest.raises(DataflowError, match=words):
        Wanted(**wanted)


def test_a_url_of_an_unknown_kind_is_refused(tmp_path):
    flow = stream_of([{"k": 1, "n": 1}]).select("k").write.dataset("ftp://host/out")
    with pytest.raises(DataflowError, match="must be a directory"):
        run(flow, tmp_path)


def test_a_dataset_in_a_bucket():
    disk = Disk(Wanted(target=1 << 11, keep_ms=1_000), store=ObjectStore("memory:///datasets"))
    driver = disk.driver()
    for timestep in range(12):
        driver.publish(timestep, *[(n, timestep) for n in range(5)])
        driver.compact()
        disk.now_ms += 400
        driver.compaction.tidy()
    assert disk.rows() == sorted((n, timestep) for timestep in range(12) for n in range(5))
    assert len(disk.read().named) < 8
    assert all(each.startswith("memory:///datasets/_files/") for each in disk.read().files)


# Jobs ------------------------------------------------------------------------------------------------


def stream_of(*pushed: list[dict], schema: str = "k bigint, n bigint"):
    return rc.read().memory(script(schema, list(pushed)), name="in")


def run(flow, state) -> None:
    job = rc.Job("j", flow, state=str(state)).start(in_process=InProcess())
    job.process_all_available(60)
    job.stop()


def test_a_changelog_is_applied_and_deleted_rows_go(tmp_path):
    def balance(account, amount, rows):
        left = (amount or 0) + sum(rows["n"])
        return left if left else None

    source = script(
        "account string, n bigint", [[{"account": "a", "n": 1}, {"account": "b", "n": 2}]]
    )
    changes = (
        rc.read()
        .memory(source, name="in")
        .key_by("account")
        .track(balance, state="amount bigint", name="accounts")
        .changelog()
    )
    out = tmp_path / "out"
    flow = changes.write.dataset(out, keys="account", changes="change", metadata="timestep")
    job = rc.Job("j", flow, state=str(tmp_path / "state")).start(in_process=InProcess())
    job.process_all_available(60)
    source.push([{"account": "a", "n": -1}, {"account": "b", "n": 5}])
    job.process_all_available(60)
    job.stop()
    output = rc.read_output(out)
    assert output.table().to_pylist() == [{"account": "b", "amount": 7, "timestep": 2}]
    assert output.pandas()["account"].tolist() == ["b"]


def test_totals_are_kept_by_key_over_restarts(tmp_path):
    def totals(source):
        stream = (
            rc.read().memory(source, name="in").key_by("k").aggregate(n=agg.sum("n"), name="totals")
        )
        return stream.write.dataset(tmp_path / "out", keys="k")

    pushed = [[{"k": n % 3, "n": 1} for n in range(9)], [{"k": 1, "n": 5}]]
    run(totals(script("k bigint, n bigint", pushed[:1])), tmp_path / "state")
    run(totals(script("k bigint, n bigint", pushed)), tmp_path / "state")
    rows = rc.read_output(tmp_path / "out").table().sort_by("k").to_pylist()
    assert rows == [{"k": 0, "n": 3}, {"k": 1, "n": 8}, {"k": 2, "n": 3}]


def test_changes_to_keys_without_saying_so_are_refused(tmp_path):
    stream = stream_of([{"k": 1, "n": 1}]).key_by("k").aggregate(n=agg.sum("n"), name="totals")
    flow = stream.changelog().write.dataset(tmp_path / "out", keys="k")
    with pytest.raises(DataflowError, match="changes='change'"):
        run(flow, tmp_path / "state")
