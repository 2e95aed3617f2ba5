"""What sources have recorded of their input, where an upgrade gives a source another name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import FencedError, MissingFileError, OtherDataflowError
from rechannel.sources.records import last_name
from rechannel.testing import Crash, Fault, FaultKind, Harness, MemoryStore
from tests.support.input_files import put_parquet
from tests.support.text_edits import QUIET


class Files:
    """A job that reads files, whose columns it has found in the first one."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.feed(0)

    def feed(self, number: int, **more: Any) -> None:
        (self.place / "in").mkdir(exist_ok=True)
        table = pa.table({"k": ["a"], **more})
        put_parquet(self.place / "in" / f"{number}.parquet", table)

    def job(self, source: str, **renamed: str) -> rc.Job:
        rows = rc.read().files(self.place / "in", format="parquet", name=source)
        op = rows.key_by("k").aggregate(n=agg.count(), name="op")
        flow = op.write.memory("out", name="out")
        return rc.Job("files", flow, state=self.place / "state", renamed=renamed)

    def run(self, job: rc.Job, **said: Any) -> int:
        running = job.start(in_process=rc.InProcess(), **said)
        running.process_all_available()
        rows = running.state("op").to_pylist()
        running.stop()
        return int(rows[0]["n"])

    def folders(self) -> list[str]:
        return sorted(
            each.name
            for each in (self.place / "state" / "sources").iterdir()
            if any(each.rglob("*.json"))
        )


class Takeover:
    """A driver that reads files, and one that takes over from it with another name for its source."""

    def __init__(self, place: Path) -> None:
        self.place, self.store, self.fed = place, MemoryStore(), 0
        self.interrupted = False
        place.mkdir(exist_ok=True)
        self.feed()
        self.old = self.bench("in")
        self.old.start().run()
        self.feed()
        self.old.process.run()

    def feed(self) -> None:
        pq.write_table(pa.table({"k": ["a"]}), self.place / f"{self.fed}.parquet")
        self.fed += 1

    def bench(self, source: str) -> Harness:
        rows = rc.read().files(self.place, format="parquet", name=source)
        op = rows.key_by("k").aggregate(n=agg.count(), name="op")
        return Harness(op.write.memory("out", name="out"), store=self.store, settings=QUIET)

    def upgrade(self, writes: int = sys.maxsize, kind: FaultKind | None = None) -> None:
        """Take over; before one of its writes the old driver goes on, and the new one may die at that or the next."""
        new = self.bench("input")
        said: dict[str, Any] = {"upgrade": True, "renamed": {"in": "input"}}
        try:
            new.start(faults=self.meanwhile(writes, kind), **said).run()
        except Crash:
            new.start(**said).run()

    def meanwhile(self, writes: int, kind: FaultKind | None) -> Iterator[Fault | None]:
        yield from repeat(None, writes)
        self.interrupted = True
        self.feed()
        with suppress(FencedError, MissingFileError):  # once it is fenced, its records may go
            self.old.process.run()
        yield None if kind is None else Fault(kind=kind)

    def counted(self) -> int:
        last = self.bench("input")
        last.start(renamed={"in": "input"}).run()
        return int(last.state("op").to_pylist()[0]["n"])

    def folders(self) -> set[str]:
        return {key.split("/")[1] for key in self.store.list("sources/")}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = Files(tmp_path)
    assert made.run(made.job("in")) == 1
    return made


def test_files_that_were_read_under_the_old_name_are_not_read_again(files):
    files.feed(1)
    again = files.job("input", **{"in": "input"})
    assert files.run(again, upgrade=True) == 2
    assert files.folders() == ["input"]
    files.feed(2)
    assert files.run(again, upgrade=True) == 3
    assert files.run(files.job("rows", **{"in": "input", "input": "rows"}), upgrade=True) == 3
    assert files.folders() == ["rows"]


@pytest.mark.parametrize("kind", [None, FaultKind.BEFORE, FaultKind.AFTER])
def test_what_the_driver_before_reads_until_it_is_fenced_is_not_read_again(tmp_path, kind):
    for writes in count():
        place = Takeover(tmp_path / f"{kind}-{writes}")
        place.upgrade(writes, kind)
        assert place.counted() == place.fed
        assert place.folders() == {"input"}
        if not place.interrupted:
            break
    assert writes > 5


def test_what_an_earlier_source_has_left_under_the_new_name_goes(tmp_path):
    place = Takeover(tmp_path)
    place.store.put("sources/input/replays/1", b"another source's")
    place.upgrade()
    assert "sources/input/replays/1" not in place.store.list("sources/")


def test_another_upgrade_to_the_same_names_loses_nothing(tmp_path):
    place = Takeover(tmp_path)

    def another() -> Iterator[None]:
        yield None
        place.bench("input").start(upgrade=True, renamed={"in": "input"}).run()

    place.bench("input").start(faults=another(), upgrade=True, renamed={"in": "input"}).run()
    assert place.counted() == place.fed


def test_an_upgrade_that_is_refused_leaves_no_copy(files):
    with pytest.raises(OtherDataflowError):
        files.run(files.job("input", **{"in": "input", "op": "ops"}), upgrade=True)
    assert files.folders() == ["in"]
    assert files.run(files.job("in")) == 1


def test_a_savepoint_keeps_what_lies_under_the_old_name(files):
    running = files.job("in").start(in_process=rc.InProcess())
    running.savepoint("before", cause="a test")
    running.stop()
    again = files.job("input", **{"in": "input"})
    assert files.run(again, upgrade=True) == 1
    assert files.folders() == ["in", "input"]
    running = again.start(in_process=rc.InProcess())
    running.drop_savepoint("before", cause="a test")
    running.stop()
    assert files.run(again) == 1
    assert files.folders() == ["input"]


def test_names_are_followed_to_the_last_one_that_there_is():
    assert last_name("a", {"a": "b"}, {"b"}) == "b"
    assert last_name("a", {"a": "b", "b": "c"}, {"c"}) == "c"
    assert last_name("a", {"a": "b", "b": "c"}, {"b"}) == "b"
    assert last_name("a", {"a": "b", "b": "a"}, {"x"}) == "a"
