"""A sink is an outlet and a writer: those made here are written to by a job, which does not know of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.graph.naming import DerivedName
from rechannel.errors import DataflowError, DuplicateNameError
from rechannel.job import InProcess
from rechannel.sinks.batch import Batch
from rechannel.sinks.outlet import Outlet, SinkContext
from rechannel.sinks.writer import Rows, Staged, UnsharedWriter
from rechannel.testing import script


@dataclass(frozen=True, eq=False, kw_only=True)
class ShelfOutlet(Outlet):
    """Tables on a shelf that the user has."""

    shelf: dict[int, pa.Table] = field(default_factory=dict)
    label: str = "shelf"

    @property
    def place(self) -> str:
        return self.label

    def describe(self) -> str:
        return f"shelf {self.label}"

    def open(self, context: SinkContext) -> ShelfWriter:
        return ShelfWriter(self.shelf, context.label)


@dataclass(frozen=True, eq=False, kw_only=True)
class NowhereOutlet(ShelfOutlet):
    """The same without readers."""

    drops_rows: ClassVar[bool] = True


@dataclass
class ShelfWriter(UnsharedWriter):
    shelf: dict[int, pa.Table]
    name: str
    durable: bool = False
    staged: dict[int, pa.Table] = field(default_factory=dict)

    def stage(self, rows: Rows, batch: Batch) -> Staged:
        self.staged[batch.timestep] = rows.table()
        return {}

    def publish(self, staged: Staged, batch: Batch) -> None:
        if batch.timestep in self.staged:
            self.shelf[batch.timestep] = self.staged.pop(batch.timestep)


def run(outlet: ShelfOutlet, state: object) -> None:
    rows = script("k BIGINT, v BIGINT", [[{"k": 1, "v": 2}, {"k": 1, "v": 3}], [{"k": 2, "v": 5}]])
    totals = rc.read().memory(rows, name="rows").key_by("k").aggregate(n=agg.count(), name="op")
    flow = totals.write.to(outlet, DerivedName("shelf"))
    job = rc.Job("shelving", flow, state=state).start(in_process=InProcess())
    job.process_all_available()
    job.stop()


def test_a_job_publishes_each_timestep_to_it(tmp_path):
    outlet = ShelfOutlet()
    run(outlet, tmp_path)
    assert [table.to_pylist()[0]["k"] for table in outlet.shelf.values()] == [1, 2]


def test_it_receives_no_rows_if_it_drops_them(tmp_path):
    outlet = NowhereOutlet()
    run(outlet, tmp_path)
    assert outlet.shelf == {}


def test_two_sinks_cannot_share_its_place(tmp_path):
    stream = rc.read().memory("n BIGINT", name="rows")
    flows = [stream.write.to(ShelfOutlet(), DerivedName(name)) for name in ("one", "two")]
    with pytest.raises(DuplicateNameError, match="both write to shelf"):
        rc.Job("shelving", flows, state=tmp_path)


def test_what_is_no_outlet_is_refused_where_it_is_used():
    with pytest.raises(DataflowError, match=r"'shelf' is not an outlet: subclass .*\.Outlet"):
        rc.read().memory("n BIGINT", name="rows").write.to("shelf", DerivedName("shelf"))
