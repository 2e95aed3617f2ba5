"""What the file system refuses to a running job: a full disk is borne and told, missing permission ends it at once."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import NotPermittedError
from rechannel.job import InProcess, Job
from rechannel.model.patience import Patience
from rechannel.running import RunningJob
from rechannel.settings import Settings
from rechannel.sources.connectors import MemoryConnector
from rechannel.state.stores import local

PATIENT = Settings(patience=Patience(seconds=300, first_seconds=0.001, most_seconds=0.01), tasks=1)


class Disk:
    """Refuses writes to some files, so many times. refused: how often it did."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.code, self.times, self.refused, self.where = 0, 0, 0, ""
        opened = local.LocalStore._open_temporary

        def refuses(store: local.LocalStore, folder: str) -> tuple[int, str]:
            if self.times and self.where in folder:
                self.times -= 1
                self.refused += 1
                raise OSError(self.code, os.strerror(self.code))
            return opened(store, folder)

        monkeypatch.setattr(local.LocalStore, "_open_temporary", refuses)

    def refuse(self, code: int, where: str, times: int) -> None:
        self.code, self.where, self.times = code, where, times


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


def started(
    tmp_path: Path, rows: MemoryConnector | None = None
) -> tuple[RunningJob, MemoryConnector]:
    rows = rows or MemoryConnector(schema="k BIGINT", partitions=1)
    counted = rc.read().memory(rows, name="in").key_by("k").aggregate(n=agg.count(), name="counts")
    job = Job("j", counted.write.memory("out"), state=tmp_path / "state", settings=PATIENT)
    return job.start(in_process=InProcess()), rows


def push(job: RunningJob, rows: Any) -> None:
    rows.push(pa.record_batch({"k": [1, 2]}))
    job.process_all_available(60)


@pytest.mark.parametrize("where", ["/journal", "/segments/"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_borne_and_told_with_its_path(tmp_path, disk, caplog, where, code):
    job, rows = started(tmp_path)
    push(job, rows)
    disk.refuse(code, where, times=3)
    push(job, rows)
    assert disk.refused == 3
    assert job.memory("out").num_rows == 4
    assert job.status.troubles == {}
    said = [r.getMessage() for r in caplog.records if os.strerror(code) in r.getMessage()]
    assert said
    assert all(f"{tmp_path}/state" in text for text in said)
    assert all("Free space" in text for text in said)
    job.stop(60)


@pytest.mark.parametrize("where", ["/journal", "/segments/"])
@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_missing_permission_ends_the_job_at_once(tmp_path, disk, where, code):
    job, rows = started(tmp_path)
    push(job, rows)
    disk.refuse(code, where, times=1_000_000)
    with pytest.raises(NotPermittedError, match=r"cannot \w+ /.*Waiting does not help"):
        push(job, rows)
    assert job.status.retries == 0
    assert disk.refused
    disk.refuse(0, "", times=0)
    again, _ = started(tmp_path, rows)
    again.process_all_available(60)
    assert {row["n"] for row in again.state("counts").to_pylist()} == {2}
    again.stop(60)
