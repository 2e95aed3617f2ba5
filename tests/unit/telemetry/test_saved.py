"""What a job has left in its state directory is what it has shown."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import DamagedStateError
from rechannel.telemetry.driver_hub import open_hub
from rechannel.telemetry.saved import SavedReader
from rechannel.testing import Harness, ManualClock


def rows(start, stop):
    return pa.RecordBatch.from_pydict({"k": pa.array([n % 7 for n in range(start, stop)])})


def run(directory, monkeypatch, seconds=5):
    """A stream of 100 rows per second that reads 60, with telemetry in a directory."""
    read = rc.read().generator(
        rows, schema="k long", rows_per_second=100, per_timestep=60, name="in"
    )
    counts = read.key_by("k").aggregate(n=agg.count(), name="counts")
    clock = ManualClock()
    harness = Harness(
        counts.write.memory("out"), clock=clock, settings=rc.Settings(interval_ms=1_000, tasks=2)
    )

    def logged(*args, **how):
        return open_hub(*args, **{**how, "root": directory})

    monkeypatch.setattr("rechannel.testing.harness.open_hub", logged)
    process = harness.start()
    for _ in range(seconds):
        process.run()
        clock.advance(1_000)
    process.run()
    process.parts.hub.close()
    return process.parts.hub


def test_a_job_and_what_it_has_saved_show_the_same(tmp_path, monkeypatch):
    hub = run(tmp_path, monkeypatch)
    saved = SavedReader(tmp_path / "telemetry").read()
    assert saved.job == "test"
    assert list(saved.progress) == hub.recent_progress
    assert [each.backlog["in"] for each in saved.progress[:3]] == [40, 80, 120]
    assert len(saved.tasks) == len(hub.recent_tasks) == len(saved.progress) >= 4
    for one, other in zip(hub.recent_tasks, saved.tasks, strict=True):
        assert (one.timestep, one.duration_ms, one.at_once) == (
            other.timestep, other.duration_ms, other.at_once,
        )  # fmt: skip
        assert set(one.operators) == set(other.operators) == {"in", "counts"}
        for name, columns in one.operators.items():
            told = other.operators[name]
            for column in ("numbers", "rows", "busy_ms", "core_ms"):
                np.testing.assert_array_equal(getattr(columns, column), getattr(told, column))
            assert (columns.sent, columns.bins) == (told.sent, told.bins)


def test_a_reader_goes_on_where_it_was(tmp_path, monkeypatch):
    first = run(tmp_path, monkeypatch, seconds=2)
    reader = SavedReader(tmp_path / "telemetry")
    before = reader.read()
    assert reader.read().tasks == before.tasks
    second = run(tmp_path, monkeypatch, seconds=3)
    after = reader.read()
    assert len(before.tasks) == len(first.recent_tasks) > 0
    assert len(after.tasks) == len(first.recent_tasks) + len(second.recent_tasks)
    assert [each.driver for each in after.tasks] == [
        *(1 for _ in first.recent_tasks),
        *(2 for _ in second.recent_tasks),
    ]


def test_a_bad_line_is_an_error_or_is_passed_on(tmp_path, monkeypatch):
    hub = run(tmp_path, monkeypatch)
    (file,) = (tmp_path / "telemetry").iterdir()
    file.write_bytes(file.read_bytes() + b"no event\n")
    with pytest.raises(DamagedStateError, match="is not an event"):
        SavedReader(tmp_path / "telemetry").read()
    bad = []
    saved = SavedReader(tmp_path / "telemetry", bad=bad.append).read()
    assert len(bad) == 1
    assert len(saved.tasks) == len(hub.recent_tasks)


def test_nothing_saved_is_nothing(tmp_path):
    saved = SavedReader(tmp_path).read()
    assert (saved.job, saved.progress, saved.tasks) == ("", (), ())
