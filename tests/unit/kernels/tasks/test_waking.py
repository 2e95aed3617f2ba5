"""Keys whose timers go off are put among those that received rows, whatever the order of keys that share a hash."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.lsm.merge import Rows
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.kernels.shuffle.receive import Received
from rechannel.kernels.tasks.measure import Measures
from rechannel.kernels.tasks.waking import Waking
from rechannel.model.ddl import schema_of
from rechannel.model.hashspace import Intervals
from rechannel.operators.process.process import ProcessLogic


def logic() -> ProcessLogic:
    return ProcessLogic(
        keys=schema_of("k STRING"),
        row_schema=schema_of("k STRING, v BIGINT"),
        fields=schema_of("v BIGINT"),
        states={},
        timers={"t": "event"},
        sides={},
        function=lambda key, rows, context: None,
        on_timer=lambda key, timer, context: None,
    )


def received(*keys: tuple[str, int, list[int]]) -> Received:
    """Keys as (key, hash, rows), in this order."""
    sizes = np.array([len(rows) for _, _, rows in keys], dtype=np.int64)
    return Received(
        keys=[pa.array([key for key, _, _ in keys], pa.string())],
        hashes=np.array([hashed for _, hashed, _ in keys], dtype=np.uint64),
        values=[pa.array([row for _, _, rows in keys for row in rows], pa.int64())],
        groups=Groups(np.cumsum(sizes) - sizes, int(sizes.sum())),
        combined=False,
        rows=int(sizes.sum()),
    )


def due(*keys: tuple[str, int]) -> Rows:
    """State rows of timers of keys, as (key, hash), by hash."""
    names = pa.array([key for key, _ in keys], pa.string())
    others = [pa.array([":t"] * len(keys)), pa.array([0] * len(keys)), pa.array([5] * len(keys))]
    return Rows(np.array([hashed for _, hashed in keys], dtype=np.uint64), [names, *others], None)


def rows_by_key(made: Received) -> dict[str, list[int]]:
    values, groups = made.values[0].to_pylist(), made.groups
    pairs = zip(groups.starts.tolist(), groups.ends.tolist(), strict=True)
    every = [values[start:stop] for start, stop in pairs]
    return dict(zip(made.keys[0].to_pylist(), every, strict=True))


@pytest.mark.parametrize(
    ("came", "parts", "expected"),
    [
        ([("a", 1, [1, 2])], [due(("b", 2))], {"a": [1, 2], "b": []}),
        (
            [("b", 2, [1]), ("c", 3, [2])],
            [due(("a", 1)), due(("a", 1))],
            {"a": [], "b": [1], "c": [2]},
        ),
        ([("a", 1, [1])], [due(("a", 1))], {"a": [1]}),
        ([], [due(("a", 1), ("b", 1))], {"a": [], "b": []}),
        # Both keys that came share a hash with one that is due, and lie the other way round.
        (
            [("c", 1, [1, 2]), ("a", 1, [3]), ("d", 2, [4])],
            [due(("b", 1))],
            {"a": [3], "b": [], "c": [1, 2], "d": [4]},
        ),
    ],
)
def test_each_key_is_there_once_with_its_rows(came: Any, parts: Any, expected: Any) -> None:
    own = Intervals.of([(0, 1 << 64)])
    waking = Waking(Capabilities(logic()), own, None, Measures(), {}, {})  # type: ignore[arg-type]
    made = waking._beside(received(*came), parts)
    assert rows_by_key(made) == expected
    assert made.hashes.tolist() == sorted(made.hashes.tolist())
    assert made.groups.rows == sum(map(len, expected.values()))
