"""Reading dead letters back: in small pieces, and no more of a file than can be asked for."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rechannel as rc
from rechannel.engine.letters import kept
from rechannel.engine.letters.kept import keeper_of, letters_in
from rechannel.kernels.functions.dead_letters import WHOLE_LETTER
from rechannel.sinks.dataset.manifest import DataFile
from rechannel.testing import script

PADDING = "x" * 5_000
ROWS = [
    {"operator": name, "error": PADDING, "row": f"{timestep}\u2028", "at_timestep": timestep}
    for timestep in range(40)
    for name in ("op", "other")
]


class Read:
    """What stands for a store and the output of a dataset in it."""

    def __init__(self, data: bytes) -> None:
        self.store, self.data, self.schema = self, data, WHOLE_LETTER
        self.named = [DataFile(key="only", rows=len(ROWS), size=len(data), first=0, last=39)]

    def read(self, key: str) -> memoryview:
        return memoryview(self.data)


@pytest.fixture(params=["dataset", "parquet", "json"])
def sink(request, tmp_path, monkeypatch):
    """A sink with all rows: in one file with 8 row groups, or in two of JSON."""
    rows = rc.read().memory(script("k STRING"), name="in")
    op = rows.map(len, "n INT", name="op", on_error="dead_letter")
    bad = getattr(rc.dead_letters(op).write, request.param)(tmp_path / "bad", name="bad")
    (tmp_path / "bad").mkdir()
    table = pa.Table.from_pylist(ROWS, schema=WHOLE_LETTER)
    for folder, some in {"timestep=0": table.slice(0, 40), "timestep=20": table.slice(40)}.items():
        place = tmp_path / "bad" / folder
        place.mkdir()
        if request.param == "json":
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in some.to_pylist())
            (place / "0.json").write_text("".join(lines), encoding="utf-8")
        else:
            pq.write_table(some, place / "0.parquet", row_group_size=10)
    whole = pa.BufferOutputStream()
    pq.write_table(table, whole, row_group_size=10)
    monkeypatch.setattr(kept, "read_output", lambda path: Read(whole.getvalue().to_pybytes()))
    monkeypatch.setattr(kept, "PIECE_BYTES", 30_000)
    job = rc.Job("x", [op.write.memory("good", name="good"), bad], state=tmp_path / "state")
    return keeper_of(job.dataflow, "op")


def test_pieces_are_small_and_only_of_the_operator(sink):
    pieces = list(letters_in(sink, "op", 0, 39))
    assert [t for p in pieces for t in p.column("at_timestep").to_pylist()] == list(range(40))
    assert {row for p in pieces for row in p.column("operator").to_pylist()} == {"op"}
    assert pieces[0].column("row")[0].as_py() == "0\u2028"
    assert max(p.num_rows for p in pieces) <= 5


def test_row_groups_of_other_timesteps_are_not_read(sink, monkeypatch):
    read = []
    iter_batches = pq.ParquetFile.iter_batches

    def counted(file, *args, row_groups, **given):
        read.extend(row_groups)
        return iter_batches(file, *args, row_groups=row_groups, **given)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    pieces = list(letters_in(sink, "op", 0, 4))
    assert sum(p.num_rows for p in pieces) == 5
    assert read in ([0], [])  # none of JSON
