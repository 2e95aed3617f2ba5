"""Folders in memory: they behave as those on a disk do, and fail on command."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import MissingFileError, StorageError
from rechannel.settings import Settings
from rechannel.sinks.files import FileWriter
from rechannel.sinks.local import LocalFolder
from rechannel.testing import (
    Crash,
    Fault,
    FaultKind,
    FaultyFolder,
    Harness,
    MemoryFolder,
    script,
)


@pytest.fixture(params=["memory", "faulty", "local"])
def folder(request):
    """The same contract for each."""
    kinds = {
        "memory": MemoryFolder,
        "faulty": lambda: FaultyFolder(MemoryFolder()),
        "local": lambda: LocalFolder(sync=False),
    }
    return kinds[request.param]()


def test_a_rename_shows_a_directory_whole_and_once(folder, tmp_path):
    root = str(tmp_path)
    folder.make(f"{root}/hidden/a/deep")
    assert folder.names(f"{root}/hidden") == ["a"]
    assert folder.rename(f"{root}/hidden/a", f"{root}/shown")
    assert folder.names(f"{root}/shown") == ["deep"]
    assert folder.exists(f"{root}/shown")
    assert not folder.exists(f"{root}/hidden/a")
    assert not folder.rename(f"{root}/hidden/a", f"{root}/shown")
    folder.make(f"{root}/hidden/b/deep")
    assert not folder.rename(f"{root}/hidden/b", f"{root}/shown")
    folder.remove(f"{root}/hidden")
    folder.remove(f"{root}/hidden")
    assert folder.names(root) == ["shown"]
    assert folder.names(f"{root}/hidden") == []


def test_what_is_not_there_cannot_be_shown(folder, tmp_path):
    with pytest.raises(MissingFileError, match="missing"):
        folder.rename(f"{tmp_path}/nothing", f"{tmp_path}/shown")


def harness(disk, fault, **options):
    """A stream into files, whose folder fails at one change."""
    rows = rc.read().memory(script("k long", [[{"k": 1}], [{"k": 2}]]), name="in")
    folder = FaultyFolder(disk, fault)
    return Harness(
        rows.key_by("k").aggregate(n=agg.count(), name="counts").write.parquet("/out", name="out"),
        writer=lambda sink: FileWriter(
            root="/out", owner="job.out", token=str(id(folder)), folder=folder, write=folder.write
        ),
        **options,
    )


@pytest.mark.parametrize("kind", list(FaultKind))
@pytest.mark.parametrize("at", range(7))
def test_a_driver_that_dies_at_a_change_of_a_folder_shows_every_timestep_once(kind, at):
    disk = MemoryFolder()
    first = harness(disk, [None] * at + [Fault(kind=kind)])
    with pytest.raises((Crash, StorageError)):
        first.start().run()
    second = harness(disk, [], store=first.store, names=map("again{}".format, range(99)))
    second.start().run()
    seen = {timestep: rows["k"].to_pylist() for timestep, rows in disk.published("/out").items()}
    assert seen == {1: [1], 2: [2]}


def test_torn_rows_stay_in_part_and_the_dead_do_nothing():
    disk = MemoryFolder()
    folder = FaultyFolder(disk, [Fault(kind=FaultKind.TORN, kept=0.5)])
    rows = pa.table({"k": [1, 2]})
    with pytest.raises(Crash):
        folder.write(_Rows(rows), "/a")
    assert disk.files["/a/rows"].num_rows == 1
    with pytest.raises(Crash):
        folder.names("/a")


def test_a_job_sweeps_files_when_so_many_commits_have_passed():
    rows = rc.read().memory(script("k long", [[{"k": 1}]] * 6), name="in")
    counts = rows.key_by("k").aggregate(n=agg.count(), name="counts").write.memory("out")
    options = {"settings": Settings(keep_versions=1), "choose": Random(1).randrange}
    swept, kept = Harness(counts, sweep_every=2, **options), Harness(counts, **options)
    for bench in (swept, kept):
        bench.start().run()
    assert len([*swept.store.list("outbox/")]) < len([*kept.store.list("outbox/")])


class _Rows:
    def __init__(self, table):
        self._table = table

    def table(self):
        return self._table
