"""A stream of cases with a model of one number, for tests of its update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import rechannel as rc
from rechannel.state.stores.memory import MemoryStore
from rechannel.testing import Harness, script

PER_TIMESTEP = 20
COLUMNS = "id BIGINT, at BIGINT, x BIGINT, actual BOOLEAN"
TRAINED: list[list[int]] = []
"""The first and last `at` of the cases of each training."""


def over(limit: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return a function that predicts what is above a limit."""

    def predict(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.append_column("predicted", pc.greater(rows["x"], limit))

    return predict


def learn(cases: pa.Table) -> dict[str, Any]:
    """Return the limit below the least positive case of the latest half."""
    TRAINED.append([pc.min(cases["at"]).as_py(), pc.max(cases["at"]).as_py()])
    positive = cases.filter(cases["actual"])
    return {"limit": pc.min(positive["x"]).as_py() - 1}


def learn_nothing(cases: pa.Table) -> dict[str, Any]:
    """Return a limit above all cases, another one each time."""
    return {"limit": 1_000 + pc.max(cases["at"]).as_py()}


def learn_wrongly(cases: pa.Table) -> dict[str, Any]:
    """Raise."""
    raise ArithmeticError(f"cannot learn from {cases.num_rows} cases")


def cases(timestep: int, limit: int) -> list[dict[str, Any]]:
    """Return the rows of a timestep, a second of time, each with its label."""
    first = timestep * PER_TIMESTEP
    return [
        {"id": first + n, "at": 1_000 * timestep, "x": 5 * n, "actual": 5 * n > limit}
        for n in range(PER_TIMESTEP)
    ]


def dataflow(rows: Any, limit: int = 50) -> Any:
    """Return the dataflow. limit: of the model that it begins with."""
    columns = f"{COLUMNS}, predicted BOOLEAN"
    scored = rc.read().memory(rows, name="rows").map_batches(over(limit), columns, name="score")
    return scored.key_by("id").latest(name="cases").write.memory("out")


def stream(limit: int = 50, store: MemoryStore | None = None) -> tuple[Any, Harness]:
    """Return the source and the stream."""
    rows = script(COLUMNS)
    settings = rc.Settings(tasks=2, bins=8)
    return rows, Harness(dataflow(rows, limit), settings=settings, store=store)


def update(**options: Any) -> rc.control.Controller:
    """Return the controller."""
    given: dict[str, Any] = {
        "train": f"{__name__}:learn",
        "least": 20,
        "window_ms": 4_000,
    } | options
    return rc.control.library.ModelUpdate(
        operator="score", factory=f"{__name__}:over", labelled="cases", **given
    )
