"""What sources have recorded of their input, where an upgrade gives a source another name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import OtherDataflowError
from rechannel.sources.records import last_name


class Files:
    """A job that reads files, whose columns it has found in the first one."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.feed(0)

    def feed(self, number: int, **more: Any) -> None:
        (self.place / "in").mkdir(exist_ok=True)
        table = pa.table({"k": ["a"], **more})
        pq.write_table(table, self.place / "in" / f"{number}.parquet")

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
