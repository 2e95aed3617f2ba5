"""A look at every run that is written: it must hold each full key once, as `kernels/lsm/collect.py` relies on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.lsm.runs import RunWriter


def repeated(keys: Columns) -> list[tuple[str, ...]]:
    """The full keys that more than one row has. Numbers that are equal are one key, and so are all NaN."""
    columns = [column.to_pylist() for column in keys]
    found = Counter(
        tuple(repr(0.0 if value == 0.0 and isinstance(value, float) else value) for value in key)
        for key in zip(*columns, strict=True)
    )
    return [key for key, times in found.items() if times > 1]


@contextmanager
def each_run_looked_at() -> Iterator[Counter[str]]:
    """Look at the runs of all writers. Yields how many each logic has written."""
    seen: Counter[str] = Counter()
    write_as = RunWriter.write_as

    def looked_at(self: RunWriter, rows: Any, *arguments: Any) -> Any:
        logic = self.program.can.logic
        twice = repeated(rows.columns[: len(logic.key_schema)])
        assert not twice, f"{type(logic).__name__} has written {twice} more than once into a run"
        seen[type(logic).__name__] += 1
        return write_as(self, rows, *arguments)

    RunWriter.write_as = looked_at  # type: ignore[assignment, method-assign]
    try:
        yield seen
    finally:
        RunWriter.write_as = write_as  # type: ignore[method-assign]
