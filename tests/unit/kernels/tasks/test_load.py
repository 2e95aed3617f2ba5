"""Bulk load: finished state rows become segments that operators go on from."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rechannel.errors import DataflowError
from rechannel.kernels.lsm.scan import canonical, finished
from rechannel.kernels.protocol.program import StageStep
from rechannel.kernels.shuffle.wire import from_batches
from rechannel.kernels.tasks.load import Load, Scatter, conform_state
from rechannel.model.routing import Routing
from rechannel.operators.aggregate.functions import Count, Max, Mean
from rechannel.operators.aggregate.logic import AggregateLogic
from rechannel.state.manifest import Manifest
from rechannel.state.merging import BASE_LEVEL
from tests.support.tasks import ROWS, Bench, as_batch, counting, reports_of, rows

SLICES = Routing.even(bins=3, tasks=3)
STEP = StageStep(timestep=0, stream_ms=0)


def peaks() -> AggregateLogic:
    """An operator whose state is its output."""
    return AggregateLogic.bind(["k"], {"n": Count(), "top": Max(column="v")}, ROWS)


def load(bench: Bench, table: pa.Table, names: tuple[str, ...]) -> list[int]:
    """Load a table; rows per slice."""
    scatter = Scatter(bench.program, names, SLICES)
    parcels = [
        (target, blob)
        for number, batch in enumerate(table.to_batches(max_chunksize=4))
        for made in scatter.run([batch], number)
        for target, blob in zip(made.column(0).to_pylist(), made.column(1).to_pylist(), strict=True)
    ]
    sizes = []
    for number in range(SLICES.tasks):
        mine = [as_batch([parcel]) for parcel in parcels if parcel[0] == number]
        (report,) = reports_of(list(Load(bench.program, STEP, SLICES).run(mine, number, "x")))
        edit = report.state.edit
        sizes.append(sum(run.rows for run in edit.add))
        bench.manifest = bench.manifest.apply(edit)
    return sizes


def initial(count: int) -> pa.Table:
    return pa.table({"top": range(count), "k": [f"k{i}" for i in range(count)], "n": [1] * count})


def test_loaded_state_is_what_the_operator_goes_on_from():
    bench = Bench(peaks())
    sizes = load(bench, initial(20), ("k", "n", "top"))
    assert sum(sizes) == 20
    assert min(sizes) > 0
    assert {run.level for run in bench.manifest.runs} == {BASE_LEVEL}
    shown = finished(bench.program, bench.state, 0).to_pylist()
    assert sorted((row["k"], row["top"]) for row in shown) == sorted(
        (f"k{i}", i) for i in range(20)
    )
    assert bench.step([(rows(("k3", 99)), 0)]) == [{"k": "k3", "n": 2, "top": 99}]


def test_an_empty_table_loads_nothing():
    bench = Bench(peaks())
    assert load(bench, initial(0), ("k", "n", "top")) == [0, 0, 0]
    assert bench.manifest == Manifest()


def test_a_key_that_comes_twice_is_refused():
    twice = pa.concat_tables([initial(3), initial(1)])
    with pytest.raises(DataflowError, match="'op' has a key more than once"):
        load(Bench(peaks()), twice, ("k", "n", "top"))


def test_columns_are_cast_to_those_stored():
    narrow = initial(2).cast(
        pa.schema([("top", pa.int32()), ("k", pa.large_string()), ("n", pa.int8())])
    )
    bench = Bench(peaks())
    load(bench, narrow, ("k", "n", "top"))
    assert finished(bench.program, bench.state, 0).schema == peaks().output_schema


def test_columns_may_bear_the_names_of_the_output_where_state_is_the_output():
    program = Bench(peaks()).program
    stored = program.can.stored_schema
    assert conform_state(program, stored) == stored.names
    assert conform_state(program, initial(0).schema) == ["k", "n", "top"]


def test_missing_columns_are_named():
    with pytest.raises(DataflowError, match=r"'op' needs columns .*\['k', 'n', 'top'\].*\['k'\]"):
        conform_state(Bench(peaks()).program, pa.schema([("k", pa.string())]))


def test_the_result_of_a_mean_is_no_state():
    logic = AggregateLogic.bind(["k"], {"m": Mean(column="v")}, ROWS)
    program = Bench(logic).program
    with pytest.raises(DataflowError, match="needs columns"):
        conform_state(program, pa.schema([("k", pa.string()), ("m", pa.float64())]))


def test_every_slice_holds_its_own_hashes():
    bench = Bench(counting())
    names = tuple(bench.program.can.stored_schema.names)
    state = Bench(counting())
    state.step([(rows(*((f"k{i}", i) for i in range(30))), 0)])
    table = canonical(state.program, state.state, 0).drop_columns(["_hash"])
    made = list(Scatter(bench.program, names, SLICES).run(table.to_batches(), 0))
    assert sum(blob.rows for blob in from_batches(made)) == 30
    load(bench, table, names)
    assert canonical(bench.program, bench.state, 0).equals(canonical(state.program, state.state, 0))
