"""An operator is a spec and a logic: these two are made here, and run in the engine, which does not know of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.dataflow.identity.logic import logic_identity
from rechannel.dataflow.pictures.captions import caption
from rechannel.errors import RefusedError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.sorting import take
from rechannel.kernels.protocol.capabilities import Expiring, Timed
from rechannel.kernels.protocol.logic import OperatorInput, OperatorOutput
from rechannel.model.buffers import IntArray
from rechannel.model.eventtime import Clock
from rechannel.operators.spec import OperatorSpec
from rechannel.testing import Harness, script

HIGH = pa.field("high", pa.int64())


@dataclass(frozen=True, eq=False, kw_only=True)
class HighestLogic:
    """The largest value of a key so far, times a factor: the core of the protocol, and nothing else."""

    key_schema: pa.Schema
    factor: int
    ordered: bool = False

    @property
    def value_schema(self) -> pa.Schema:
        return pa.schema([("v", pa.int64())])

    @property
    def state_schema(self) -> pa.Schema:
        return pa.schema([HIGH])

    @property
    def output_schema(self) -> pa.Schema:
        return pa.schema([*self.key_schema, HIGH])

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        values = arrivals.values[0].to_numpy(zero_copy_only=False)
        high = np.maximum.reduceat(values, arrivals.groups.starts)
        old = arrivals.old[0].fill_null(0).to_numpy(zero_copy_only=False)
        state = [pa.array(np.where(arrivals.found, np.maximum(high, old), high))]
        output = self.finish(arrivals.keys, state)
        return OperatorOutput(
            state=state, dropped=None, output=output, output_hashes=arrivals.hashes
        )

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        shown = pa.compute.multiply(state[0], self.factor)
        return pa.RecordBatch.from_arrays([*keys, shown], schema=self.output_schema)


@dataclass(frozen=True, eq=False, kw_only=True)
class HighestUntilLogic(HighestLogic, Timed, Expiring):
    """The same, emitted at the event time that the value itself names, and then forgotten."""

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        made = HighestLogic.apply(self, arrivals)
        return replace(made, output=made.output.slice(0, 0), output_hashes=made.output_hashes[:0])

    def timer_of(self, keys: Columns, state: Columns) -> IntArray:
        seconds: IntArray = state[0].fill_null(0).to_numpy(zero_copy_only=False)
        return seconds * 1_000_000

    def due_range(self, clock: Clock) -> tuple[int, int]:
        return clock.before, clock.watermark

    def live(self, keys: Columns, state: Columns, clock: Clock) -> Any:
        return self.timer_of(keys, state) > clock.watermark

    def fire(self, keys: Columns, state: Columns, hashes: Any, clock: Clock) -> Any:
        due = np.flatnonzero(self.timer_of(keys, state) <= clock.watermark)
        return self.finish(take(keys, due), take(state, due)), hashes[due]


@dataclass(frozen=True, eq=False, kw_only=True)
class HighestSpec(OperatorSpec):
    """What a user would ask for."""

    factor: int = 1
    timed: bool = False

    @property
    def kind(self) -> str:
        return "highest"

    @property
    def needs_time(self) -> bool:
        return self.timed

    @property
    def runs(self) -> str:
        return "a factor by name"

    def with_columns(self, columns: Mapping[str, Any], *, keyed: bool) -> HighestSpec:
        return replace(self, factor=columns["factor"])

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> HighestLogic:
        made = HighestUntilLogic if self.timed else HighestLogic
        key_schema = pa.schema([schema.field(key) for key in keys])
        return made(key_schema=key_schema, factor=self.factor)

    def fingerprint(self) -> str:
        return "highest()"


class Bench:
    def __init__(self, columns: str, *, timed: bool = False, tasks: int = 2) -> None:
        self.rows = script(columns)
        stream = rc.read().memory(self.rows, name="rows")
        keyed = (stream.event_time("t", delay=0) if timed else stream).key_by("k")
        made = keyed._operator(HighestSpec(timed=timed), "op", None, None, None)
        self.harness = Harness(
            made.write.memory("out", name="out"), settings=rc.Settings(tasks=tasks, bins=8)
        )
        self.harness.start()

    def change(self, what: Any) -> None:
        """Ask for a change and let it be prepared: it holds from the next timestep on."""
        self.harness.process.reconfigure(what)
        self.harness.process.run()

    def step(self, *rows: dict[str, Any]) -> list[tuple[int, int]]:
        self.rows.push(list(rows))
        self.harness.process.run()
        last = list(self.harness.outputs("out").values())[-1]
        return sorted((row["k"], row["high"]) for row in last.to_pylist())


def test_it_runs_keeps_state_and_is_rescaled():
    bench = Bench("k BIGINT, v BIGINT")

    assert bench.step(*({"k": i % 4, "v": i} for i in range(12))) == [
        (0, 8),
        (1, 9),
        (2, 10),
        (3, 11),
    ]
    bench.change(rc.changes.rescale("op", 3))
    assert bench.step({"k": 0, "v": 1}, {"k": 9, "v": 2}) == [(0, 8), (9, 2)]
    assert sorted(bench.harness.state("op").to_pylist(), key=lambda row: row["k"])[0] == {
        "k": 0,
        "high": 8,
    }


def test_its_logic_is_changed_while_it_runs():
    bench = Bench("k BIGINT, v BIGINT")

    assert bench.step({"k": 1, "v": 5}) == [(1, 5)]
    bench.change(rc.changes.change_logic("op", {"factor": 10}))
    assert bench.step({"k": 1, "v": 3}) == [(1, 50)]
    with pytest.raises(RefusedError, match="runs a factor by name; int cannot replace it"):
        bench.change(rc.changes.change_logic("op", 7))


def test_it_waits_for_event_time_if_it_has_that_capability():
    bench = Bench("k BIGINT, v BIGINT, t TIMESTAMP", timed=True)
    at = {f"t{second}": second * 1_000_000 for second in (1, 6)}

    assert bench.step({"k": 1, "v": 5, "t": at["t1"]}, {"k": 2, "v": 60, "t": at["t1"]}) == []
    assert bench.step({"k": 3, "v": 90, "t": at["t6"]}) == [(1, 5)]


def test_it_has_an_identity_and_a_caption():
    node = Bench("k BIGINT, v BIGINT").harness.dataflow.by_name["op"]

    assert logic_identity(node).complete
    assert caption(node, None, 40) == "highest by k"
