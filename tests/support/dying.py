"""Functions that make one attempt of a task die."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.nexmark.events import Events


@dataclass(frozen=True)
class DiesOnce:
    """A function whose first call on this machine raises. marker: a file that is there from then on."""

    function: Callable[..., Any]
    marker: Path

    def __call__(self, *given: Any) -> Any:
        try:
            self.marker.touch(exist_ok=False)
        except FileExistsError:
            return self.function(*given)
        raise RuntimeError("this attempt dies")


def same(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows as they are."""
    return rows


@dataclass(frozen=True, kw_only=True)
class DyingEvents(Events):
    """Events of NEXMark; for every kind the first task that makes some dies. markers: a folder."""

    markers: Path

    def source(self, kind: str) -> Callable[[int, int], pa.RecordBatch]:
        return DiesOnce(super().source(kind), self.markers / f"{kind} died")
