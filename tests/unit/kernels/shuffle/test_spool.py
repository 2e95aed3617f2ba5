"""What a task spills is found again, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rechannel.kernels.shuffle.spool import ALIGNMENT, Spool, local_folder
from rechannel.kernels.tasks.sink_buffer import SinkBuffer


def test_what_was_written_is_read_also_after_its_memory_was_given_back(tmp_path: Path):
    spool = Spool(folder=str(tmp_path))
    places = [spool.write(bytes([number]) * size) for number, size in enumerate((3, 0, 200_000))]
    assert all(start % ALIGNMENT == 0 for start, _ in places)
    buffers = spool.read(places)
    assert [buffer.size for buffer in buffers] == [3, 0, 200_000]
    spool.release()
    later = spool.write(b"more")
    assert spool.read([later])[0].to_pybytes() == b"more"
    spool.close()
    assert buffers[2].to_pybytes() == b"\2" * 200_000


def test_the_file_has_no_name_that_a_killed_task_could_leave_behind(tmp_path: Path):
    spool = Spool(folder=str(tmp_path))
    spool.write(b"x" * 100_000)
    assert spool.size
    assert not list(tmp_path.iterdir())


def test_nothing_is_made_where_nothing_is_spilled(tmp_path: Path):
    spool = Spool(folder=str(tmp_path / "missing"))
    assert spool.read([]) == []
    spool.close()


def test_it_lies_where_spark_keeps_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'missing'},{tmp_path}")
    assert local_folder() == str(tmp_path)
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    monkeypatch.delenv("LOCAL_DIRS", raising=False)
    assert local_folder() is None


def test_rows_that_are_kept_come_back_in_order_with_those_that_cannot_be_spilled():
    kept = SinkBuffer()
    plain = [pa.record_batch({"n": pa.array([i] * 100)}) for i in range(5)]
    encoded = pa.record_batch({"t": pa.array(["a", "b"]).dictionary_encode()})
    for batch in plain:
        kept.add("plain", batch, 1_000)
    kept.add("encoded", encoded, 1)
    assert kept._spool.size
    found = dict(kept.batches())
    assert found["plain"] == plain
    assert found["encoded"] == [encoded]
    kept.close()
