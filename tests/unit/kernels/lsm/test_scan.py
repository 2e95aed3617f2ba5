"""Reading whole state: as people see it, and exactly as stored."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rechannel.kernels.columnar import sorting
from rechannel.kernels.lsm.scan import canonical, finished, scan
from rechannel.kernels.protocol.program import TaskState
from rechannel.kernels.shuffle import receive, send
from rechannel.model.eventtime import Clock
from rechannel.model.hashspace import SPACE, Intervals
from tests.support.runs import weak
from tests.support.tasks import Bench, counting, rows

NOW = Clock(stream_ms=0)

EVERYTHING = Intervals.everything()


def bench_of(*timesteps: pa.RecordBatch) -> Bench:
    bench = Bench(counting())
    for given in timesteps:
        bench.step([(given, 0)])
    return bench


def test_state_has_the_columns_of_the_output():
    bench = bench_of(rows(("a", 1), ("b", 2)))
    table = finished(bench.program, bench.state, NOW)
    assert table.schema == counting().output_schema
    assert sorted(table.to_pylist(), key=repr) == [
        {"k": "a", "n": 1, "total": 1},
        {"k": "b", "n": 1, "total": 2},
    ]


def test_stored_state_has_hash_keys_and_state_columns_in_the_order_of_hashes():
    bench = bench_of(rows(*((f"k{i}", i) for i in range(20))), rows(("k3", 1)))
    table = canonical(bench.program, bench.state, NOW)
    assert table.schema.names == ["_hash", "k", *counting().state_schema.names]
    hashes = table.column("_hash").to_pylist()
    assert hashes == sorted(hashes)
    assert table.num_rows == 20


def test_no_state_has_columns_all_the_same():
    program, nothing = Bench(counting()).program, TaskState(own=EVERYTHING)
    assert scan(program, nothing, 0) is None
    assert finished(program, nothing, NOW).schema == counting().output_schema
    assert canonical(program, nothing, NOW).num_rows == 0


def test_a_scan_of_parts_is_a_scan_of_the_whole():
    bench = bench_of(rows(*((f"k{i}", i) for i in range(20))), rows(("k3", 1)))
    pieces = []
    for lo, hi in ((0, SPACE // 3), (SPACE // 3, SPACE)):
        own = Intervals.of([(lo, hi)])
        state = TaskState(own=own, runs=bench.manifest.within(own))
        pieces.append(canonical(bench.program, state, NOW))
    whole = canonical(bench.program, bench.state, NOW)
    assert pa.concat_tables(pieces).equals(whole)


def test_keys_of_one_hash_have_one_order_whatever_was_written_when():
    with pytest.MonkeyPatch.context() as patch:
        for module in (send, receive):
            patch.setattr(module, "hash_columns", weak)
        patch.setattr(sorting, "hash_is_key", lambda _: False)
        letters = [(letter, 1) for letter in "abcdefghij"]
        once = bench_of(rows(*letters, *letters))
        twice = bench_of(rows(*letters), rows(*reversed(letters)))
        one_by_one = bench_of(*(rows(pair) for pair in reversed(letters * 2)))
        tables = [canonical(b.program, b.state, NOW) for b in (once, twice, one_by_one)]
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])
