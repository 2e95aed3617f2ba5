"""Whose output a path holds: two jobs at once, copies of a state directory, restored ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import RefusedError
from rechannel.job import InProcess, Job
from rechannel.sinks.batch import Batch
from rechannel.sinks.claims import Ledger, published_name
from rechannel.sinks.files import FileWriter
from rechannel.sinks.local import LocalFolder, arrow_writer
from rechannel.sinks.writer import Rows
from rechannel.testing import script
from rechannel.testing.folder import MemoryFolder

SCHEMA = pa.schema([("n", pa.int64())])


def rows(*values: int) -> Rows:
    batches = [pa.RecordBatch.from_pydict({"n": [v]}, SCHEMA) for v in values]
    return Rows(tables=lambda: iter(batches), schema=SCHEMA)


def batch(timestep: int, digest: str = "aa", incarnation: str = "sink-1") -> Batch:
    return Batch(timestep=timestep, incarnation=incarnation, digest=digest)


def opened(disk, *, ledger: Ledger | None = None, owner: str = "job.o", token="t", **more):
    return FileWriter(
        root="/out",
        owner=owner,
        token=token,
        folder=disk,
        write=MemoryFolder.write.__get__(disk),
        ledger=None if ledger is None else lambda: ledger,
        **more,
    )


def show(writer: FileWriter, what: Batch, *values: int) -> None:
    writer.publish(writer.stage(rows(*values), what), what)


def ledger(opening: str = "b", committed: int = 0, **digests: str) -> Ledger:
    known = {int(name.removeprefix("t")): text for name, text in digests.items()}
    openings = {1: "a"} if opening == "a" else {1: "a", 2: opening}
    return Ledger(
        opening=opening,
        epoch=len(openings),
        openings=openings,
        committed=committed,
        digests=known,
    )


def shown(disk: MemoryFolder) -> dict[int, list[int]]:
    return {t: rows["n"].to_pylist() for t, rows in disk.published("/out").items()}


class Meanwhile(MemoryFolder):
    """Lets something happen right before the first change."""

    def __init__(self, happens: Callable[[MemoryFolder], object], change: str) -> None:
        super().__init__()
        self.happens, self.change, self.happened = happens, change, 0

    def __getattribute__(self, name):
        if name == object.__getattribute__(self, "__dict__").get("change") and not self.happened:
            self.happened += 1
            self.happens(self)
        return super().__getattribute__(name)


@pytest.mark.parametrize("change", ["make", "rename"])
def test_of_two_jobs_that_claim_a_path_at_the_same_time_one_is_refused(change):
    let_in: list[FileWriter] = []
    disk = Meanwhile(lambda d: let_in.append(opened(d, owner="other.o", token="u")), change)
    with pytest.raises(
        RefusedError, match=r"claimed by other\.o, which has not published anything"
    ):
        opened(disk)
    assert disk.happened == 1
    show(let_in[0], batch(1), 7)
    assert shown(disk) == {1: [7]}
    assert disk.names("/out/_rechannel") == ["other.o"]
    assert [name for name in disk.names("/out") if name.startswith("_rechannel-")] == []


def test_a_claim_passes_over_an_empty_directory_in_its_way():
    disk = MemoryFolder()
    disk.make("/out/_rechannel")
    show(opened(disk), batch(1), 7)
    assert shown(disk) == {1: [7]}


def test_what_is_published_says_what_it_is_to_nobody_but_us(tmp_path):
    writer = FileWriter(
        root=str(tmp_path),
        owner="o",
        token="t",
        folder=LocalFolder(sync=False),
        write=arrow_writer("parquet", {}),
        ledger=ledger,
    )
    show(writer, batch(3), 7)
    folder = tmp_path / published_name(3)
    assert (folder / "_rechannel-sink-1-aa").is_dir()
    seen = [{"n": 7, "timestep": 3}]
    assert ds.dataset(tmp_path, partitioning="hive").to_table().to_pylist() == seen
    assert pl.read_parquet(tmp_path).to_dicts() == seen
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["part-00000.parquet"]


def test_a_timestep_that_another_history_published_is_never_taken_as_published():
    disk = MemoryFolder()
    one, copy = opened(disk), opened(disk, token="u")
    show(one, batch(4, "aa"), 1)
    show(one, batch(4, "aa"), 1)  # a repetition
    for other in (batch(4, "bb"), batch(4, "aa", "sink-9")):
        with pytest.raises(RefusedError, match=r"timestep=0+4 already exists .* restore the newer"):
            show(copy, other, 2)
    assert shown(disk) == {4: [1]}


def test_directories_made_by_hand_are_not_ours_and_those_of_before_are():
    disk = MemoryFolder()
    writer = opened(disk)
    disk.put(pa.table({"n": [5]}), f"/out/{published_name(2)}")
    with pytest.raises(RefusedError, match="made by hand"):
        show(writer, batch(2), 6)
    show(writer, Batch(timestep=2), 6)  # as journals of before name it
    assert shown(disk) == {2: [5]}


def test_a_timestep_is_shown_where_the_directory_says_that_it_is_this_one():
    disk = MemoryFolder()
    writer = opened(disk)
    assert not writer.shows(batch(4, "aa"))
    show(writer, batch(4, "aa"), 1)
    assert writer.shows(batch(4, "aa"))
    assert not writer.shows(batch(4, "bb"))
    assert writer.shows(Batch(timestep=4))  # as journals of before name it


def test_later_output_is_refused_at_open_or_removed_on_purpose():
    disk = MemoryFolder()
    writer = opened(disk, ledger=ledger("a"))
    for number in (1, 2, 3, 4):
        show(writer, batch(number, f"a{number}"), number)
    restored = ledger(committed=2, t1="a1", t2="a2")
    with pytest.raises(
        RefusedError, match=r"holds timesteps 3 to 4 that .* last commit is timestep 2"
    ):
        opened(disk, ledger=restored)
    assert shown(disk) == {1: [1], 2: [2], 3: [3], 4: [4]}
    show(opened(disk, ledger=replace(restored, remove_later=True)), batch(3, "b3"), 30)
    assert shown(disk) == {1: [1], 2: [2], 3: [30]}


def test_a_committed_timestep_with_other_rows_is_refused_at_open():
    disk = MemoryFolder()
    show(opened(disk, ledger=ledger("a")), batch(2, "a2"), 2)
    opened(disk, ledger=ledger(committed=2, t2="a2"))
    with pytest.raises(RefusedError, match="holds timestep 2 that"):
        opened(disk, ledger=ledger(committed=2, t2="b2"))


def test_a_copy_is_refused_at_open_before_either_has_published_anything():
    disk = MemoryFolder()
    opened(disk, ledger=ledger("a"))
    opened(disk, ledger=ledger("b"))  # the same directory, started again
    copy = Ledger(opening="c", epoch=2, openings={1: "a", 2: "c"})
    with pytest.raises(
        RefusedError, match="opened by a driver that this state directory does not know"
    ):
        opened(disk, ledger=copy)
    opened(disk, ledger=ledger("b"))
    assert disk.names("/out/_rechannel/job.o") == ["opened-2-b"]


def test_openings_that_the_journal_has_forgotten_are_its_own_and_later_ones_are_not():
    disk = MemoryFolder()
    opened(disk, ledger=ledger("a"))
    forgetful = Ledger(opening="z", epoch=400, openings={n: f"d{n}" for n in range(200, 400)})
    opened(disk, ledger=replace(forgetful, opening=""))  # before it has journalled anything
    assert disk.names("/out/_rechannel/job.o") == ["opened-1-a"]
    opened(disk, ledger=forgetful)
    assert disk.names("/out/_rechannel/job.o") == ["opened-400-z"]
    opened(disk, ledger=replace(forgetful, epoch=401))
    for copy in (
        replace(forgetful, epoch=399),
        replace(forgetful, epoch=402, openings={401: "b"}),
    ):
        with pytest.raises(RefusedError, match="opened by a driver that this state directory"):
            opened(disk, ledger=copy)


@pytest.mark.parametrize("known", [True, False])
def test_words_of_drivers_of_before_are_ids_alone(known):
    disk = MemoryFolder()
    opened(disk)
    disk.make("/out/_rechannel/job.o/opened-a")
    if known:
        opened(disk, ledger=ledger("b"))
        assert disk.names("/out/_rechannel/job.o") == ["opened-2-b"]
    else:
        with pytest.raises(RefusedError, match="opened by a driver"):
            opened(disk, ledger=Ledger(opening="c", epoch=7, openings={7: "c"}))


@pytest.mark.parametrize("name", ["opened-x-y", "opened-2-", "opened--b"])
def test_a_word_that_no_driver_writes_is_refused_as_a_stranger_s(name):
    disk = MemoryFolder()
    opened(disk)
    disk.make(f"/out/_rechannel/job.o/{name}")
    with pytest.raises(RefusedError, match="opened by a driver"):
        opened(disk, ledger=ledger("b"))


def test_a_namesake_in_one_job_may_go_on_where_another_ended():
    disk = MemoryFolder()
    first = opened(disk, ledger=ledger("a"))
    second = opened(disk, ledger=ledger("a", committed=1))
    show(first, batch(1), 1)
    show(second, batch(2, "bb", "sink-2"), 2)
    assert shown(disk) == {1: [1], 2: [2]}


# A whole job ------------------------------------------------------------------------------------------------


def job(root, source, name="j", state="state"):
    rows = rc.read().memory(source, name="in")
    counts = rows.key_by("k").aggregate(n=agg.count(), name="counts")
    return Job(name, [counts.write.json(str(root / "out"), name="o")], state=str(root / state))


def run(made: Job, source, *keys: str, **how) -> None:
    running = made.start(in_process=InProcess(), **how)
    for key in keys:
        source.push([{"k": key}])
        running.process_all_available(60)
    running.stop()


def test_a_restored_copy_of_the_state_does_not_lose_rows_silently(tmp_path):
    source = script("k string")
    run(job(tmp_path, source), source, "a", "b")
    shutil.copytree(tmp_path / "state", tmp_path / "backup")
    run(job(tmp_path, source), source, "c")
    with pytest.raises(RefusedError, match=r"holds timestep 3 that .*remove_later_output=True"):
        job(tmp_path, source, state="backup").start(in_process=InProcess())
    later = script("k string", [[{"k": "a"}], [{"k": "b"}]])
    run(job(tmp_path, later, state="backup"), later, "d", remove_later_output=True)
    texts = [path.read_text() for path in sorted((tmp_path / "out").glob("timestep=*/*.json"))]
    assert [text.strip() for text in texts] == [
        '{"k": "a", "n": 1}',
        '{"k": "b", "n": 1}',
        '{"k": "d", "n": 1}',
    ]


def test_a_copy_of_the_state_of_a_job_that_runs_is_refused(tmp_path):
    source = script("k string")
    run(job(tmp_path, source), source, "a")
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    running = job(tmp_path, source).start(in_process=InProcess())
    with pytest.raises(
        RefusedError, match="opened by a driver that this state directory does not know"
    ):
        job(tmp_path, source, state="copy").start(in_process=InProcess())
    running.stop()


def test_a_sink_that_owes_timesteps_to_one_path_is_not_started_with_another(tmp_path):
    source = script("k string")

    def text(path: str) -> Job:
        counts = rc.read().memory(source, name="in").key_by("k").aggregate(n=agg.count(), name="c")
        flow = counts.write.on_failure("skip", attempts=1).json(str(tmp_path / path), name="o")
        return Job("j", [flow], state=str(tmp_path / "state"))

    running = text("one").start(in_process=InProcess())
    shutil.rmtree(tmp_path / "one")
    (tmp_path / "one").write_text("in the way")
    source.push([{"k": "a"}])
    running.process_all_available(60)
    assert running.sinks["o"].owed == 1
    assert "in quarantine" in running.status.troubles["sink o"]
    running.stop()
    with pytest.raises(RefusedError, match=r"still has to write timesteps 1 to 1 to .*one"):
        text("two").start(in_process=InProcess())
    (tmp_path / "one").unlink()
    running = text("one").start(in_process=InProcess())
    assert running.release("o") == 1
    running.process_all_available(60)
    running.stop()
    run(text("two"), source, "b")
    assert len(list((tmp_path / "one").glob("timestep=*"))) == 1
    assert len(list((tmp_path / "two").glob("timestep=*"))) == 1
