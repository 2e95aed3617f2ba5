"""The file sink: a timestep appears whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rechannel as rc
from rechannel.errors import (
    DataflowError,
    MissingFileError,
    OtherHistoryError,
    RefusedError,
    StorageError,
)
from rechannel.job import InProcess
from rechannel.sinks.batch import Batch
from rechannel.sinks.claims import Ledger
from rechannel.sinks.files import FileWriter, missing, published_name
from rechannel.sinks.local import LocalFolder, arrow_writer, storing
from rechannel.sinks.outlets import FileOutlet
from rechannel.sinks.writer import Rows
from rechannel.testing import script
from rechannel.testing.folder import MemoryFolder

SCHEMA = pa.schema([("n", pa.int64())])


def rows(*values: int) -> Rows:
    batches = [pa.RecordBatch.from_pydict({"n": [v]}, SCHEMA) for v in values]
    return Rows(tables=lambda: iter(batches), schema=SCHEMA)


def opened(
    root: Path, *, token: str = "one", owner: str = "job.sink", write=None, ledger=None
) -> FileWriter:
    return FileWriter(
        root=str(root),
        owner=owner,
        token=token,
        folder=LocalFolder(sync=False),
        write=write or arrow_writer("parquet", {}),
        ledger=ledger,
    )


def seen(root: Path) -> dict[int, list[int]]:
    """What a reader sees, by timestep."""
    out: dict[int, list[int]] = {}
    for folder in sorted(root.glob("timestep=*")):
        for file in folder.glob("*.parquet"):
            number = int(folder.name.partition("=")[2])
            out.setdefault(number, []).extend(pq.read_table(file)["n"].to_pylist())
    return out


def staged(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "_rechannel").glob("*/*"))


def journalled(value: dict) -> dict:
    return json.loads(json.dumps(value))


def test_a_timestep_is_seen_once_it_is_published_and_not_before(tmp_path):
    writer = opened(tmp_path)
    said = journalled(writer.stage(rows(1, 2), Batch(timestep=7)))
    assert said["rows"] == 2
    assert seen(tmp_path) == {}
    writer.publish(said, Batch(timestep=7))
    assert seen(tmp_path) == {7: [1, 2]}
    assert (tmp_path / "timestep=000000000007").is_dir()
    assert staged(tmp_path) == []
    writer.close()


def test_publishing_again_changes_nothing(tmp_path):
    writer = opened(tmp_path)
    said = writer.stage(rows(1), Batch(timestep=1))
    writer.publish(said, Batch(timestep=1))
    writer.publish(said, Batch(timestep=1))
    opened(tmp_path, token="two").publish(said, Batch(timestep=1))
    assert seen(tmp_path) == {1: [1]}


def test_staging_again_behind_the_commit_shows_the_rows_once(tmp_path):
    first = opened(tmp_path)
    first.publish(first.stage(rows(1), Batch(timestep=1)), Batch(timestep=1))
    second = opened(tmp_path, token="two")
    second.publish(second.stage(rows(1), Batch(timestep=1)), Batch(timestep=1))
    assert seen(tmp_path) == {1: [1]}
    assert staged(tmp_path) == []


def test_an_empty_timestep_writes_nothing(tmp_path):
    writer = opened(tmp_path)
    said = writer.stage(rows(), Batch(timestep=1))
    writer.publish(said, Batch(timestep=1))
    assert said == {"rows": 0}
    assert seen(tmp_path) == {}
    assert staged(tmp_path) == []


def test_what_was_staged_and_never_committed_is_swept(tmp_path):
    crashed = opened(tmp_path)
    said = crashed.stage(rows(1), Batch(timestep=1))
    crashed.stage(rows(2), Batch(timestep=2))
    crashed.stage(rows(3), Batch(timestep=3))
    again = opened(tmp_path, token="two")
    new = again.stage(rows(2), Batch(timestep=2))
    assert staged(tmp_path) == sorted([said["staging"], new["staging"]])
    again.publish(said, Batch(timestep=1))
    again.publish(new, Batch(timestep=2))
    assert seen(tmp_path) == {1: [1], 2: [2]}
    assert staged(tmp_path) == []


def test_what_was_staged_for_a_committed_timestep_stays_while_an_earlier_one_is_staged(tmp_path):
    """A live change made the sink direct: the timestep before it is read and staged behind the commit."""
    crashed = opened(tmp_path)
    committed = crashed.stage(rows(6), Batch(timestep=6))
    crashed.stage(rows(7), Batch(timestep=7))
    known = Ledger(opening="", epoch=1, committed=6)
    again = opened(tmp_path, token="two", ledger=lambda: known)
    owed = again.stage(rows(5), Batch(timestep=5))
    assert staged(tmp_path) == sorted([committed["staging"], owed["staging"]])
    again.publish(owed, Batch(timestep=5))
    again.publish(committed, Batch(timestep=6))
    assert seen(tmp_path) == {5: [5], 6: [6]}


def test_other_attempts_at_a_committed_timestep_are_swept(tmp_path):
    crashed = opened(tmp_path)
    crashed.stage(rows(1), Batch(timestep=1))
    said = crashed.stage(rows(1), Batch(timestep=1))
    again = opened(tmp_path, token="two")
    again.publish(said, Batch(timestep=1))
    assert seen(tmp_path) == {1: [1]}
    assert staged(tmp_path) == []


def test_what_the_same_driver_staged_before_is_swept_with_the_timestep_that_is_shown(tmp_path):
    writer = opened(tmp_path)
    first = writer.stage(rows(1), Batch(timestep=1))
    again = writer.stage(rows(1), Batch(timestep=1))
    later = writer.stage(rows(2), Batch(timestep=2))
    assert staged(tmp_path) == [first["staging"], again["staging"], later["staging"]]
    writer.publish(again, Batch(timestep=1))
    assert staged(tmp_path) == [later["staging"]]
    writer.publish(later, Batch(timestep=2))
    assert staged(tmp_path) == []
    assert seen(tmp_path) == {1: [1], 2: [2]}


def test_a_driver_that_was_replaced_does_not_touch_what_the_new_one_staged(tmp_path):
    old = opened(tmp_path)
    new = opened(tmp_path, token="two")
    said = new.stage(rows(1), Batch(timestep=1))
    old.stage(rows(1), Batch(timestep=1))
    old.publish({"rows": 0}, Batch(timestep=1))
    new.publish(said, Batch(timestep=1))
    assert seen(tmp_path) == {1: [1]}


def test_two_drivers_publishing_one_timestep_show_it_once(tmp_path):
    old, new = opened(tmp_path), opened(tmp_path, token="two")
    one, other = old.stage(rows(1), Batch(timestep=1)), new.stage(rows(1), Batch(timestep=1))
    new.publish(other, Batch(timestep=1))
    old.publish(one, Batch(timestep=1))
    assert seen(tmp_path) == {1: [1]}


def test_staged_output_that_is_gone_is_named(tmp_path):
    writer = opened(tmp_path)
    said = writer.stage(rows(1), Batch(timestep=1))
    LocalFolder().remove(f"{tmp_path}/_rechannel/job.sink/{said['staging']}")
    with pytest.raises(MissingFileError, match=said["staging"]):
        writer.publish(said, Batch(timestep=1))


def test_a_failed_attempt_leaves_nothing(tmp_path):
    def write(_: Rows, path: str) -> int:
        Path(path).mkdir()
        raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        opened(tmp_path, write=write).stage(rows(1), Batch(timestep=1))
    assert staged(tmp_path) == []


def test_output_of_another_job_is_refused(tmp_path):
    first = opened(tmp_path, owner="a/b")
    first.publish(first.stage(rows(1), Batch(timestep=1)), Batch(timestep=1))
    with pytest.raises(RefusedError, match="already holds timesteps, those of a%2Fb"):
        opened(tmp_path, owner="other")
    opened(tmp_path, owner="a/b")


def test_timesteps_of_nobody_known_are_refused(tmp_path):
    (tmp_path / published_name(3)).mkdir()
    with pytest.raises(RefusedError, match="choose another path"):
        opened(tmp_path)


def test_other_files_under_the_path_do_not_matter(tmp_path):
    (tmp_path / "README").write_text("mine")
    writer = opened(tmp_path)
    writer.publish(writer.stage(rows(1), Batch(timestep=1)), Batch(timestep=1))
    assert seen(tmp_path) == {1: [1]}


@given(
    script=st.lists(
        st.sampled_from(["stage", "commit", "publish", "crash", "zombie"]), max_size=30
    ),
    empty=st.sets(st.integers(0, 10)),
)
def test_every_committed_timestep_appears_exactly_once(tmp_path_factory, script, empty):
    """A driver that stages, commits, publishes, and dies in between, against a dict."""
    root, tokens = tmp_path_factory.mktemp("out"), iter(range(1000))
    values = {t: () if t in empty else (t, t + 100) for t in range(50)}
    writer, zombie = opened(root, token="t"), None
    committed: list[dict] = []
    published, pending = 0, None
    for what in script:
        if what == "stage":
            batch = Batch(timestep=len(committed))
            pending = journalled(writer.stage(rows(*values[len(committed)]), batch))
        elif what == "commit" and pending is not None:
            committed.append(pending)
            pending = None
        elif what == "publish" and published < len(committed):
            writer.publish(committed[published], Batch(timestep=published))
            published += 1
        elif what == "crash":
            zombie, pending = writer, None
            writer = opened(root, token=f"t{next(tokens)}")
            published = max(0, published - 1)  # the journal may not know of the last publication
        elif what == "zombie" and zombie is not None and committed:
            zombie.publish(committed[-1], Batch(timestep=len(committed) - 1))
    writer = opened(root, token="last")
    for timestep, said in enumerate(committed):
        writer.publish(said, Batch(timestep=timestep))
    twin = {t: list(values[t]) for t in range(len(committed)) if values[t]}
    assert seen(root) == twin


def test_a_full_disk_is_a_storage_error(tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", full)
    message = r"cannot write .*No space left on device\. [\d,]+ MiB are free there"
    with pytest.raises(StorageError, match=message):
        opened(tmp_path).stage(rows(1), Batch(timestep=1))


def test_a_place_that_cannot_be_made_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot list"):
        opened(tmp_path / "file" / "out")


def test_only_refusals_of_the_file_system_are_storage_errors():
    with pytest.raises(ValueError, match="other"), storing("write", "x"):
        raise ValueError("other")


def test_settled_files_are_synced(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("os.fsync", synced.append)
    writer = FileWriter(
        root=str(tmp_path),
        owner="o",
        token="t",
        folder=LocalFolder(sync=True),
        write=arrow_writer("parquet", {}),
    )
    synced.clear()  # the claim
    said = writer.stage(rows(1), Batch(timestep=1))
    assert len(synced) == 3  # the file, its directory, the directory above
    writer.publish(said, Batch(timestep=1))
    assert len(synced) == 4


def test_formats_that_only_spark_writes_are_refused():
    with pytest.raises(DataflowError, match="only Spark can write files of format 'orc'"):
        arrow_writer("orc", {})
    with pytest.raises(DataflowError, match="json option 'multiline' is not supported"):
        arrow_writer("json", {"multiline": "true"})


# Columns -----------------------------------------------------------------------------------------------------


def written(tmp_path, schema: str, row: dict, write) -> Path:
    """Run a job of one row in process; where it wrote."""
    source = script(schema, [[row]])
    stream = (
        rc.read().memory(source, name="in").map_batches(lambda b: b, schema=schema, name="same")
    )
    job = rc.Job("j", write(stream.write, str(tmp_path / "out")), state=str(tmp_path / "state"))
    running = job.start(in_process=InProcess())
    running.process_all_available(60)
    running.stop()
    return tmp_path / "out"


@pytest.mark.parametrize("name", ["timestep", "TimeStep"])
def test_a_column_that_readers_would_lose_is_refused(tmp_path, name):
    with pytest.raises(DataflowError, match=rf"the rows' own column '{name}' would be lost"):
        written(tmp_path, f"{name} long", {name: 77}, lambda w, out: w.parquet(out))
    assert not (tmp_path / "out").exists()


def test_a_column_called_timestep_survives_where_the_directories_are_called_otherwise(tmp_path):
    out = written(
        tmp_path,
        "timestep long",
        {"timestep": 77},
        lambda w, out: w.format("parquet").timesteps_as("batch").save(out),
    )
    read = ds.dataset(out, partitioning="hive").to_table().to_pylist()
    assert read == [{"timestep": 77, "batch": 1}]


def test_the_name_of_directories_is_checked():
    for name in ("", "_hidden", "a=b", "a/b"):
        with pytest.raises(DataflowError, match="cannot name a directory"):
            FileOutlet(format="json", path="x", column=name)


def test_a_format_that_cannot_hold_the_columns_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(
        DataflowError, match=r"sink 'csv-out': csv cannot hold these columns.*json or"
    ):
        written(tmp_path, "l array<int>", {"l": [1]}, lambda w, out: w.csv(out))
    assert list((tmp_path / "out").glob("timestep=*")) == []
    assert [name for name in staged(tmp_path / "out") if not name.startswith("opened-")] == []


# Object stores ----------------------------------------------------------------------------------------


MANY = 10**6
STEPS = 15
"""Of one publication."""


class CopyingFolder(MemoryFolder):
    """Renames file by file, the mark first, and dies after some steps, once."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.left: int | None = steps

    def renames_in_steps(self, path: str) -> bool:
        return True

    def rename(self, source: str, target: str) -> bool:
        if target in self.directories:
            return False
        if source not in self.directories:
            raise missing(source)
        self.move_rest(source, target)
        return True

    def move_rest(self, source: str, target: str) -> None:
        inside = [path for path in sorted(self.directories) if path.startswith(f"{source}/")]
        for path in inside:
            self._step()
            self.make(target + path.removeprefix(source))
        files = [path for path in sorted(self.files) if path.startswith(f"{source}/")]
        for path in files:
            self._step()
            self.make(target)
            self.files[target + path.removeprefix(source)] = self.files[path]
        for path in files:
            self._step()
            del self.files[path]
        self._step()
        self.remove(source)

    def make(self, path: str) -> None:
        self._step()
        super().make(path)

    def remove(self, path: str) -> None:
        self._step()
        super().remove(path)

    def _step(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise StorageError("503 Slow Down")

    def write(self, rows: Rows, path: str) -> int:
        """A file for each row, of names that no other attempt has."""
        for number, row in enumerate(rows.table().to_batches()):
            self.files[f"{path}/{path.rpartition('/')[2]}-{number}"] = pa.table(row)
        self.directories.add(path)
        return rows.table().num_rows


@pytest.mark.parametrize("anew", [True, False])
@pytest.mark.parametrize("steps", range(STEPS))
def test_a_rename_that_breaks_off_is_completed(steps, anew):
    disk = CopyingFolder(MANY)
    batch = Batch(timestep=1, incarnation="i", digest="d" * 32)

    def writer(token: str) -> FileWriter:
        return FileWriter(root="/out", owner="job.sink", token=token, folder=disk, write=disk.write)

    one = writer("one")
    staged = one.stage(rows(1, 2, 3), batch)
    disk.left = steps
    with pytest.raises(StorageError):
        one.publish(staged, batch)
    two = writer("two")
    two.publish(two.stage(rows(1, 2, 3), batch) if anew else staged, batch)
    (table,) = disk.published("/out").values()
    assert sorted(table["n"].to_pylist()) == [1, 2, 3]
    names = {each for each in disk.names("/out/_rechannel/job.sink") if "opened" not in each}
    assert not names
    other = Batch(timestep=1, incarnation="i", digest="e" * 32)
    with pytest.raises(OtherHistoryError):
        two.publish(two.stage(rows(9), other), other)


def test_a_publication_does_not_list_what_was_published_before():
    class Watched(CopyingFolder):
        listed: ClassVar[list[str]] = []

        def names(self, path: str) -> list[str]:
            self.listed.append(path)
            return super().names(path)

    disk = Watched(MANY)
    writer = FileWriter(root="/out", owner="o", token="one", folder=disk, write=disk.write)
    disk.listed.clear()
    batch = Batch(timestep=1, incarnation="i", digest="d" * 32)
    staged = writer.stage(rows(1, 2, 3), batch)
    writer.publish(staged, batch)
    writer.publish(staged, batch)
    assert writer.shows(batch)
    assert disk.listed
    assert "/out" not in disk.listed


def test_so_many_steps_a_publication_has():
    disk = CopyingFolder(MANY)
    writer = FileWriter(root="/out", owner="o", token="one", folder=disk, write=disk.write)
    batch = Batch(timestep=1, incarnation="i", digest="d" * 32)
    staged = writer.stage(rows(1, 2, 3), batch)
    disk.left = MANY
    writer.publish(staged, batch)
    assert MANY - disk.left == STEPS


def test_a_driver_that_was_replaced_while_it_staged_shows_no_directory_without_its_rows(tmp_path):
    class Once(LocalFolder):
        """Renames nothing, the first time."""

        failed = False

        def rename(self, source: str, target: str) -> bool:
            if "timestep=" in target and not Once.failed:
                Once.failed = True
                raise StorageError("the store does not answer")
            return super().rename(source, target)

    plain = arrow_writer("parquet", {})
    batch = Batch(timestep=1, incarnation="i", digest="d" * 32)
    later: list[tuple[FileWriter, dict]] = []

    def held_up(some: Rows, path: str) -> int:
        """Between its files and its mark, another driver takes over and begins to publish."""
        written = plain(some, path)
        other = FileWriter(
            root=str(tmp_path),
            owner="job.sink",
            token="two",
            folder=Once(sync=False),
            write=plain,
            ledger=lambda: Ledger(opening="o2", epoch=2, committed=1, digests={1: "d" * 32}),
        )
        said = other.stage(rows(1, 2), batch)
        with pytest.raises(StorageError):
            other.publish(said, batch)
        later.append((other, said))
        return written

    first = opened(tmp_path, write=held_up)
    first.publish(first.stage(rows(1, 2), batch), batch)
    other, said = later[0]
    other.publish(said, batch)
    assert Once.failed
    assert seen(tmp_path) == {1: [1, 2]}
