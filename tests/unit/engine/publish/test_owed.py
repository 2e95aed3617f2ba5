"""What a sink still has to write is what was committed, whatever the program says when it is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from rechannel.engine.program.physical import ApplyFrame, SinkBufferFrame, SinkPlan, UnionFrame
from rechannel.engine.publish.lane import Lane
from rechannel.engine.stages.inprocess import InProcessRunner
from rechannel.engine.stages.sink_rows import is_plain
from rechannel.errors import RefusedError, StorageError
from rechannel.settings import Settings
from rechannel.testing import Harness, MemoryStore, script
from rechannel.testing.recorder import Recorder

SCHEMA = pa.schema([("v", pa.int64())])


def doubled(rows: pa.Table) -> pa.Table:
    return rows.set_column(0, "v", pc.multiply(rows["v"], 2))


def large(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.greater(rows["v"], 100))


@dataclass
class Failing(Recorder):
    """A sink that does not take rows until a test says so."""

    works: bool = False
    tried: list[int] = field(default_factory=list)

    def stage(self, rows: Any, batch: Any) -> Any:
        self.tried.append(batch.timestep)
        if not self.works:
            raise StorageError("full")
        return super().stage(rows, batch)


def mapped(rows: Any) -> Any:
    return rows.map_batches(doubled, schema=SCHEMA, name="mapped")


@pytest.mark.parametrize("behind", [True, False], ids=["another node", "the source"])
def test_of_another_program_when_it_starts_again(behind: bool) -> None:
    rows, store, sink = script(SCHEMA), MemoryStore(), Failing()

    def start(stream: Any) -> Harness:
        made = Harness(
            stream.write.memory("out", name="out"),
            store=store,
            settings=Settings(tasks=2, publish_backlog=8),
            writer=lambda _sink: sink,
        )
        made.start()
        return made

    source = rc.read().memory(rows, name="in")
    first = start(mapped(source))
    rows.push([{"v": 1}, {"v": 2}])
    with pytest.raises(StorageError, match="full"):
        first.process.run()
    assert first.journal_state().last_committed == 1
    assert first.journal_state().unpublished
    del first
    sink.works = True
    again = start(
        mapped(source).map_batches(large, schema=SCHEMA, name="large")
        if behind
        else source.select("v")
    )
    again.process.run()
    assert sink.published[1]["v"].to_pylist() == [2, 4]
    assert not again.journal_state().unpublished


def test_rows_that_a_function_made_need_the_program_of_then() -> None:
    frame = SinkBufferFrame(node="now", schema=SCHEMA)
    assert is_plain(UnionFrame(children=(frame, frame)))
    assert not is_plain(UnionFrame(children=(frame, ApplyFrame(transform=None, child=frame))))  # type: ignore[arg-type]
    sink = SinkPlan(
        sink=SimpleNamespace(name="out"),  # type: ignore[arg-type]
        frame=frame,
        schema=SCHEMA,
        direct=False,
    )
    lane = SimpleNamespace(sink=sink, name="out")
    ask = Lane._sink_of
    kept = {"then": ["a file"]}
    assert ask(lane, {"now": ["a file"]}, {"derived": True}, 7) is sink  # type: ignore[arg-type]
    assert ask(lane, {"then": []}, {"derived": True}, 7) is sink  # type: ignore[arg-type]
    made = ask(lane, kept, {}, 7)  # type: ignore[arg-type]
    assert made.frame == SinkBufferFrame(node="then", schema=SCHEMA)
    with pytest.raises(RefusedError, match=r"timestep 7, .* of \['then'\], which it no longer"):
        ask(lane, kept, {"derived": True}, 7)  # type: ignore[arg-type]


def test_a_program_without_stages_can_read_what_was_kept() -> None:
    """Those of an earlier version are there still, or those of a later one come."""
    store = MemoryStore()
    runner = InProcessRunner(
        plan=None,  # type: ignore[arg-type]
        programs={},
        readers={},
        store=store,
        names=lambda: "a",
    )
    frame = SinkBufferFrame(node="now", schema=SCHEMA)
    assert list(runner.frame_rows(frame, None, {"now": []})) == []
