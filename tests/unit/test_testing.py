"""The public test kit, and the examples of docs/testing.md."""

from __future__ import annotations

import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import (
    DataflowError,
    NotReadyError,
    SourceError,
    StorageError,
    UnknownOperatorError,
)
from rechannel.sinks.batch import Batch
from rechannel.sinks.writer import Rows
from rechannel.state.stores.local import Durability, LocalStore
from rechannel.testing import Harness, ManualClock, Recorder, script
from rechannel.testing.process import StepExecutor

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def counts(*batches: list[dict[str, Any]], **options: Any) -> Harness:
    stream = rc.read().memory(script("k long", batches), name="in")
    counted = stream.key_by("k").aggregate(n=agg.count(), name="counts")
    flows = [counted.write.memory("a", name="a"), stream.write.memory("b", name="b")]
    return Harness(flows, **options)


BATCH = Batch(timestep=3)


def rows(*values: int) -> Rows:
    schema = pa.schema([("k", pa.int64())])
    batch = pa.RecordBatch.from_pydict({"k": list(values)}, schema=schema)
    return Rows(tables=lambda: iter([batch]), schema=schema)


def test_the_examples_of_the_page_hold(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {"place": tmp_path}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert len(blocks) == 4


def test_the_files_of_the_page_are_a_job_and_its_test(tmp_path, monkeypatch):
    """They are called as their titles say; the last program imports the first file."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r'```python title="([^"]+)"\n(.*?)```', text, re.DOTALL)
    assert [title for title, _ in blocks] == ["clicks.py", "test_clicks.py", "All of clicks.py"]
    (tmp_path / "clicks.py").write_text(blocks[0][1], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "clicks", raising=False)
    names: dict[str, Any] = {}
    for title, block in blocks[1:]:
        exec(compile(block, title, "exec"), names)
    names["test_the_clicks_of_a_user_are_counted"]()
    monkeypatch.delitem(sys.modules, "clicks")
    assert names["result"].output().num_rows == 2
    assert not (tmp_path / "state").exists()


def test_a_clock_stands_still_until_it_is_told():
    clock = ManualClock(1_000)
    clock.advance(5)
    clock.advance(timedelta(seconds=2))
    clock.advance(-1)
    assert clock() == clock() == 3_004


def test_every_batch_of_a_script_is_a_timestep():
    harness = counts([{"k": 1}], [], [{"k": 1}])
    harness.start().run()
    assert [table.to_pylist() for table in harness.outputs("a").values()] == [
        [{"k": 1, "n": 1}],
        [],
        [{"k": 1, "n": 2}],
    ]


def test_a_script_takes_rows_of_its_columns_only():
    with pytest.raises(SourceError, match="push"):
        script("k long", [[{"k": "one"}]])


def test_sinks_are_found_by_their_names():
    harness = counts([{"k": 1}])
    assert harness.output("a").schema.names == ["k", "n"]
    with pytest.raises(UnknownOperatorError, match=r"no sink 'c'; there are \['a', 'b'\]"):
        harness.output("c")
    with pytest.raises(UnknownOperatorError, match="no sink None"):
        harness.outputs()


def test_a_harness_runs_nothing_before_it_is_started():
    harness = counts([{"k": 1}])
    assert not harness.started
    with pytest.raises(NotReadyError, match=r"call start\(\) first"):
        _ = harness.process
    harness.start()
    assert harness.started


def test_a_dataflow_is_checked_at_once():
    with pytest.raises(DataflowError):
        Harness([])


def test_state_can_lie_in_a_directory(tmp_path: Path):
    store = LocalStore(tmp_path / "state", Durability.PROCESS)
    counts([{"k": 1}], store=store).start().run()
    again = counts([{"k": 1}], [{"k": 1}], store=store)
    again.start().run()
    assert again.state("counts").to_pylist() == [{"k": 1, "n": 2}]
    assert list(again.outputs("a")) == [2]


def test_stopping_finishes_and_closes():
    harness = counts([{"k": 1}])
    harness.start().stop()
    assert harness.journal_state().closed


def test_things_happen_in_the_order_that_is_chosen():
    seen: list[int] = []

    def last(count: int) -> int:
        seen.append(count)
        return count - 1

    harness = counts([{"k": 1}], [{"k": 2}], choose=last)
    harness.start().run()
    assert harness.state("counts").num_rows == 2
    assert set(seen) >= {2, 3}


def test_a_recorder_holds_a_timestep_once():
    recorder = Recorder()
    for _ in range(2):
        recorder.publish(recorder.stage(rows(1, 2), BATCH), BATCH)
    assert (recorder.again, recorder.staged) == (1, 2)
    assert recorder.published[3].column("k").to_pylist() == [1, 2]


def test_a_recorder_refuses_a_timestep_that_comes_again_with_other_rows():
    recorder = Recorder()
    recorder.publish(recorder.stage(rows(1), BATCH), BATCH)
    with pytest.raises(StorageError, match="timestep 3 is published again, with other rows"):
        recorder.publish(recorder.stage(rows(2), BATCH), BATCH)


def test_an_executor_holds_calls_until_they_are_run():
    executor = StepExecutor()
    futures = [executor.submit(int, text) for text in ("1", "x")]
    assert len(executor) == 2
    executor.run(1)
    assert isinstance(futures[1].exception(), ValueError)
    assert not futures[0].done()
    executor.run(0)
    assert futures[0].result() == 1


def test_a_death_is_not_the_future_s_business():
    class Death(BaseException):
        pass

    def die() -> None:
        raise Death

    executor = StepExecutor()
    executor.submit(die)
    with pytest.raises(Death):
        executor.run(0)
