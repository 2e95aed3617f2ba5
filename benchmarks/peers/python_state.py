"""Count and sum per key in a user's Python function with state: one call per key and batch.

Both forms must answer for every key of a batch, as Rechannel's side does. Rows are not combined
before they reach the function: an arbitrary function does not allow it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from benchmarks.harness import Parameters
from benchmarks.measurements import BatchMeasurement
from benchmarks.peers.streaming import HDFS, PROGRESS_KEPT, ROCKSDB, measure_batches, read_batches
from benchmarks.session import session

OUTPUT = "key LONG, count LONG, total LONG"
STATE = "count LONG, total LONG"
COLUMNS = pd.Index(["key", "count", "total"])


def run_apply_in_pandas_with_state(parameters: Parameters) -> BatchMeasurement:
    """Measure `applyInPandasWithState`, with the default store; RocksDB costs as much CPU time."""
    spark = session(parameters, {**PROGRESS_KEPT, **HDFS})
    measurement = measure_batches(applied_in_pandas(read_batches(spark, parameters)), parameters)
    spark.stop()
    return measurement


def run_transform_with_state(parameters: Parameters) -> BatchMeasurement:
    """Measure `transformWithState` in its Row form, with RocksDB: the only store that it takes."""
    spark = session(parameters, {**PROGRESS_KEPT, **ROCKSDB})
    measurement = measure_batches(transformed(read_batches(spark, parameters)), parameters)
    spark.stop()
    return measurement


def applied_in_pandas(rows: DataFrame) -> DataFrame:
    """Count and sum per key through `applyInPandasWithState`."""
    return rows.groupBy("key").applyInPandasWithState(
        count_and_sum, OUTPUT, STATE, "update", GroupStateTimeout.NoTimeout
    )


def count_and_sum(
    key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Add the rows of one key to its state."""
    count, total = state.get if state.exists else (0, 0)
    for frame in frames:
        values = frame["value"].to_numpy()
        count += len(values)
        total += int(values.sum())
    state.update((count, total))
    # From one block of integers: several times cheaper than from a dict of columns.
    yield pd.DataFrame(np.array([[key[0], count, total]]), columns=COLUMNS)


def transformed(rows: DataFrame) -> DataFrame:
    """Count and sum per key through `transformWithState`."""
    return rows.groupBy("key").transformWithState(CountAndSum(), OUTPUT, "Update", "None")


class CountAndSum(StatefulProcessor):
    """Adds the rows of one key to its state."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self.state = handle.getValueState("totals", STATE)

    def handleInputRows(  # noqa: N802
        self,
        key: tuple[int],
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        """Add `rows` to the state of `key`; answer with the new state."""
        # `get` alone answers both questions; `exists` would be one more trip to the JVM.
        count, total = self.state.get() or (0, 0)
        for row in rows:
            count += 1
            total += row[1]
        self.state.update((count, total))
        yield Row(key=key[0], count=count, total=total)

    def close(self) -> None:
        """Nothing is open."""
