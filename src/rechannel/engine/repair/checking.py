"""Files of a state directory, read and checked: one after the other in this process, or by tasks of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from rechannel.errors import DamagedStateError, MissingFileError
from rechannel.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES_OF_A_TASK = 16
_COLUMNS = pa.schema(
    [
        ("key", pa.string()),
        ("size", pa.int64()),
        ("problem", pa.string()),
        ("missing", pa.bool_()),
    ]
)

Check: TypeAlias = Callable[[Store, str], None]
"""Reads the file with this key. Raises DamagedStateError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What became of one file."""

    key: str
    size: int
    """Bytes; 0 if it is damaged or missing."""
    problem: str | None = None
    """What is wrong with it."""
    missing: bool = False


Reader: TypeAlias = Callable[[Store, Sequence[str], Check], Iterable[Checked]]
"""Checks files, in any order."""


def one_by_one(store: Store, keys: Sequence[str], check: Check) -> Iterator[Checked]:
    """Check files in this process, in their order."""
    for key in keys:
        try:
            size = store.size(key)
            check(store, key)
        except DamagedStateError as error:
            missing = isinstance(error, MissingFileError)
            yield Checked(key=key, size=0, problem=str(error), missing=missing)
        else:
            yield Checked(key=key, size=size)


@dataclass(frozen=True)
class OnSpark:
    """Checks files in tasks of Spark, which reach the store as tasks of a job do (`Reader`)."""

    spark: SparkSession

    def __call__(self, store: Store, keys: Sequence[str], check: Check) -> Iterator[Checked]:
        """Check the files. The result comes when the last task is done."""
        tasks = -(-len(keys) // FILES_OF_A_TASK)
        if not tasks:
            return
        from rechannel.sources.spark import spark_schema

        call: Any = _CheckCall(store, tuple(keys), check, tasks)
        numbers = self.spark.range(0, tasks, 1, tasks)
        for row in numbers.mapInArrow(call, spark_schema(_COLUMNS)).collect():
            yield Checked(**row.asDict())


@dataclass(frozen=True)
class _CheckCall:
    """mapInArrow function from numbers of tasks to what became of their files."""

    store: Store
    keys: tuple[str, ...]
    check: Check
    tasks: int

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take numbers, yield rows."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                # Neighbours tend to be of one size.
                found = list(one_by_one(self.store, self.keys[number :: self.tasks], self.check))
                columns = [[getattr(one, name) for one in found] for name in _COLUMNS.names]
                yield pa.record_batch(columns, schema=_COLUMNS)
