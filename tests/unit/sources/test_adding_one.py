"""A source is a connector and a reader: those made here run in a job and in a batch run, which do not know of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.dataflow.graph.naming import DerivedName
from rechannel.dataflow.identity.logic import logic_identity
from rechannel.dataflow.pictures.captions import caption
from rechannel.dataflow.streams.stream import Stream
from rechannel.errors import DataflowError
from rechannel.job import InProcess
from rechannel.sources.connector import Connector, SourceContext
from rechannel.sources.native import NativeReader
from rechannel.sources.reader import UNBOUNDED, Bound, Offset, Split

SCHEMA = pa.schema([("n", pa.int64())])


@dataclass(frozen=True, eq=False, kw_only=True)
class CountConnector(Connector):
    """The numbers from zero on."""

    rows: int | None
    per_timestep: int | None = None
    schema: pa.Schema = SCHEMA

    @property
    def endless(self) -> str | None:
        return "counts for ever" if self.rows is None else None

    def describe(self) -> str:
        return f"count to {self.rows}"

    def unbounded(self) -> CountConnector:
        return replace(self, per_timestep=None)

    def open(self, context: SourceContext) -> CountReader:
        context.store.put(f"sources/{context.name}/opened", b"")
        return CountReader(self)


class CountReader(NativeReader):
    schema = SCHEMA

    def __init__(self, connector: CountConnector) -> None:
        self._connector = connector

    def initial(self) -> Offset:
        return {"rows": 0}

    def latest(self, start: Offset, stream_ms: int, bound: Bound = UNBOUNDED) -> Offset:
        del stream_ms
        most = bound.units or self._connector.per_timestep or 1_000
        end = min(start["rows"] + most, self._connector.rows or 1_000)
        return start if end == start["rows"] else {"rows": end}

    def layout(self, start: Offset, end: Offset) -> list[Split]:
        return [{"order": start["rows"], "rows": [start["rows"], end["rows"]]}]

    def split_reader(self, start: Offset, end: Offset, layout: list[Split]) -> CountSplits:
        return CountSplits()


class CountSplits:
    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"n": range(*split["rows"])}, SCHEMA)


def stream(**given: Any) -> Stream:
    return rc.read().connector(CountConnector(**given), DerivedName("count"))


def test_a_job_reads_it_in_timesteps_of_its_own(tmp_path):
    flow = stream(rows=10, per_timestep=4).write.memory("out", name="out")
    job = rc.Job("counting", flow, state=tmp_path).start(in_process=InProcess())
    job.process_all_available()

    assert sorted(job.memory("out")["n"].to_pylist()) == list(range(10))
    assert job.last_progress.timestep == 3
    assert list(tmp_path.rglob("sources/count/opened"))
    job.stop()


def test_a_batch_run_reads_it_at_once():
    flow = stream(rows=10, per_timestep=4).write.memory("out", name="out")
    with rc.run_batch(flow, in_process=InProcess()) as found:
        assert sorted(found.output("out")["n"].to_pylist()) == list(range(10))


def test_a_batch_run_says_why_it_cannot():
    flow = stream(rows=None).write.memory("out", name="out")
    with pytest.raises(DataflowError, match=r"'count' counts for ever; give its rows with inputs="):
        rc.run_batch(flow, in_process=InProcess())


def test_it_has_a_caption_and_an_identity():
    node = stream(rows=10).node

    assert logic_identity(node).complete
    assert caption(node, None, 40) == "count to 10"


def test_what_is_no_connector_is_refused_where_it_is_used():
    with pytest.raises(
        DataflowError, match=r"'numbers' is not a connector: subclass .*\.Connector"
    ):
        rc.read().connector("numbers", DerivedName("count"))
