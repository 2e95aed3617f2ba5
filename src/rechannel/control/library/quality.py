"""How good the predictions of a model are, counted by the tasks that have predictions and labels as state. Pure.

A row of state is a case: a prediction, its label (null until it is known) and its time. Tasks count the confusion
matrix of recent cases, or hand over the cases themselves, the latest ones, as an Arrow stream in text.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rechannel.kernels.protocol.control import OperatorHandler, TaskView

EARLIEST = -(2**62)
"""Before every time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """Which columns have what of a case."""

    predicted: str
    """BOOLEAN, or a number that is 0 or not."""
    actual: str
    """The same; null until the label is known."""
    at: str
    """TIMESTAMP, or BIGINT in milliseconds."""

    def labelled(self, rows: pa.RecordBatch | pa.Table, since: int) -> pa.Table:
        """Return the cases after a time whose label is known."""
        table = pa.table(rows) if isinstance(rows, pa.RecordBatch) else rows
        late = pc.greater(self.times(table), since)
        known = pc.and_(table[self.actual].is_valid(), table[self.predicted].is_valid())
        return table.filter(pc.and_(late, known))

    def times(self, table: pa.Table) -> pa.ChunkedArray:
        """Return when each case was, Unix milliseconds."""
        column = table[self.at]
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
        return column.cast(pa.int64())


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """A confusion matrix: how many cases were predicted right and wrong."""

    true_positives: int = 0
    false_positives: int = 0
    false_negatives: int = 0
    true_negatives: int = 0
    latest: int = EARLIEST
    """Time of the latest case, with a label or without, Unix milliseconds."""

    def __add__(self, other: Confusion) -> Confusion:
        """Both together."""
        return Confusion(
            true_positives=self.true_positives + other.true_positives,
            false_positives=self.false_positives + other.false_positives,
            false_negatives=self.false_negatives + other.false_negatives,
            true_negatives=self.true_negatives + other.true_negatives,
            latest=max(self.latest, other.latest),
        )

    @property
    def relevant(self) -> int:
        """Cases that F1 depends on: all but true negatives."""
        return self.true_positives + self.false_positives + self.false_negatives

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 without any relevant case."""
        doubled = 2 * self.true_positives
        return doubled / (doubled + self.false_positives + self.false_negatives or 1)


def confusion(cases: Cases, rows: pa.RecordBatch | pa.Table, since: int) -> Confusion:
    """Return the confusion matrix of the cases after a time."""
    table = pa.table(rows) if isinstance(rows, pa.RecordBatch) else rows
    if not table.num_rows:
        return Confusion()
    known = cases.labelled(table, since)
    predicted = known[cases.predicted].cast(pa.bool_()).to_numpy()
    actual = known[cases.actual].cast(pa.bool_()).to_numpy()
    return Confusion(
        true_positives=int((predicted & actual).sum()),
        false_positives=int((predicted & ~actual).sum()),
        false_negatives=int((~predicted & actual).sum()),
        true_negatives=int((~predicted & ~actual).sum()),
        latest=pc.max(cases.times(table)).as_py(),
    )


class AskQuality(OperatorHandler):
    """Replies with the confusion matrix of the cases after a time that a task has as state."""

    reads_state = True
    reply_type = Confusion

    def __init__(self, cases: Cases, since: int) -> None:
        self.cases, self.since = cases, since

    def on_complete(self, task: TaskView) -> Confusion | None:
        """The matrix of this task."""
        read = task.read_state
        return None if read is None else confusion(self.cases, read(), self.since)

    def merge(self, one: Confusion, other: Confusion) -> Confusion:
        """The matrix of both."""
        return one + other


class AskCases(OperatorHandler):
    """Replies with the latest cases after a time, at most so many, as text."""

    reads_state = True

    def __init__(self, cases: Cases, since: int, most: int) -> None:
        self.cases, self.since, self.most = cases, since, most

    def on_complete(self, task: TaskView) -> str | None:
        """The cases of this task."""
        read = task.read_state
        return None if read is None else self._latest(self.cases.labelled(read(), self.since))

    def merge(self, one: str, other: str) -> str:
        """The latest of both."""
        return self._latest(pa.concat_tables([table_of(one), table_of(other)]))

    def _latest(self, table: pa.Table) -> str:
        plain = [f.name for f in table.schema if not pa.types.is_nested(f.type)]
        order = [(self.cases.at, "descending"), *((n, "ascending") for n in plain)]
        return text_of(table.sort_by(order).slice(0, self.most))


def text_of(table: pa.Table) -> str:
    """Return rows as text."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def table_of(text: str) -> pa.Table:
    """Invert `text_of`."""
    return pa.ipc.open_stream(base64.b64decode(text)).read_all()
