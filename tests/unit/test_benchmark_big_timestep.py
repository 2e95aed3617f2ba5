"""The benchmark of a timestep that is larger than memory: its input, what it looks at, what it concludes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks import big_timestep
from benchmarks.big_timestep import (
    BENCHMARK,
    Truth,
    WorkerPeaks,
    result_of,
    whole,
    write_input,
)
from benchmarks.harness import Variant
from benchmarks.process import Run
from benchmarks.registry import BENCHMARKS
from benchmarks.trials import Trials


def test_the_input_has_as_many_rows_as_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(big_timestep, "FILE_ROWS", 100)
    monkeypatch.setattr(big_timestep, "GROUP_ROWS", 30)
    truth = write_input(tmp_path / "input", rows=250, keys=10, seed=1)
    table = pq.read_table(tmp_path / "input")
    assert len(list((tmp_path / "input").iterdir())) == 3
    assert table.num_rows == 250
    assert set(table["key"].to_pylist()) <= set(range(10))
    assert {len(text) for text in table["text"].to_pylist()} == {big_timestep.TEXT_BYTES}
    keys, values = table["key"].to_pylist(), table["value"].to_pylist()
    assert truth == Truth(
        keys=len(set(keys)),
        rows=250,
        total=sum(values),
        weighted=sum(k * v for k, v in zip(keys, values, strict=True)),
    )


def process(proc: Path, pid: int, command: bytes, own: int, mapped: int) -> None:
    (proc / str(pid)).mkdir(exist_ok=True)
    (proc / str(pid) / "stat").write_text(f"{pid} (python) S 1 7 7 0")
    (proc / str(pid) / "cmdline").write_bytes(command)
    (proc / str(pid) / "status").write_text(f"RssAnon: {own} kB\nRssFile: {mapped} kB\n")


def test_the_peak_of_every_worker_is_seen(tmp_path: Path) -> None:
    peaks = WorkerPeaks()
    worker = b"python\0-m\0pyspark.daemon"
    for own in (10, 30, 20):
        process(tmp_path, 1, worker, own, 5)
        process(tmp_path, 2, worker, 2 * own, 1)
        process(tmp_path, 3, b"java\0", 500, 500)
        peaks.look(7, tmp_path)
    assert peaks.anonymous == {"1": 30 * 1024, "2": 60 * 1024}
    assert peaks.resident == {"1": 35 * 1024, "2": 61 * 1024}


def test_one_timestep_must_have_read_everything_and_the_state_must_say_so() -> None:
    variant = Variant(name="rechannel", function="a:b", parameters={"rows": 10})
    truth = Truth(keys=3, rows=10, total=70, weighted=900)
    good = {"rows": [10], "workers": [[1, 2]], "state": asdict(truth)}
    whole(truth, variant, good)
    with pytest.raises(ValueError, match="not one of 10"):
        whole(truth, variant, {**good, "rows": [4, 6]})
    with pytest.raises(ValueError, match="no worker"):
        whole(truth, variant, {**good, "workers": []})
    for name in asdict(truth):
        with pytest.raises(ValueError, match="the state has"):
            whole(truth, variant, {**good, "state": {**asdict(truth), name: 0}})


def test_the_bound_is_that_of_the_largest_worker() -> None:
    measured = {"seconds": [9.0], "rows": [10], "workers": [[500_000_000, 600_000_000], [1, 2]]}
    run = Run(variant="rechannel", measurement=measured, memory={}, failure=None)
    result = result_of({"worker_megabytes": 2_000}, Trials(runs=(run,)))
    assert result.ratios == {"bound_memory": 4.0}
    assert {metric.name for metric in result.metrics} >= {"timestep", "round 1 worker 1 peak"}
    assert BENCHMARKS["big-timestep"] is BENCHMARK
