"""The reports of many tasks of an operator as columns, made by one task of Spark for the driver.

It travels as one blob of three parts: the facts of the unit as JSON, and what single tasks did and wrote as two streams
of Arrow's IPC format. The driver unpacks a handful of columns instead of thousands of reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgspec
import pyarrow as pa

from rechannel.kernels.shuffle.wire import (
    REPORT,
    REPORT_TABLE,
    Blob,
    from_batches,
    pack,
    to_batches,
)
from rechannel.kernels.tasks.report import (
    ControlReport,
    HotKey,
    Judged,
    Sent,
    TaskCosts,
    TaskReport,
    plain,
)
from rechannel.kernels.tasks.unit_report import ReportList, by_operator
from rechannel.model.eventtime import Times
from rechannel.model.hashspace import Intervals
from rechannel.model.streams import from_stream, to_stream
from rechannel.state.manifest import Edit
from rechannel.state.run import Run
from rechannel.state.run_table import RunTable

MANY = 64
"""Tasks from which on their reports are folded on Spark. For fewer, another task of Spark costs the driver more."""

MS, COUNT, SENT, KEPT = "ms ", "count ", "sent ", "kept "
"""Beginnings of names of columns: milliseconds by activity, counts by name, and what was sent to the n-th input or kept
for the n-th node, by figure."""

TIMES = (
    "task",
    "started_ms",
    "finished_ms",
    "ms wait",
    "count rows_in",
    "spark_stage",
    "spark_task",
    "bins",
)
"""The first columns: what the driver reads of every timestep. The others are read when someone asks."""

_LAYOUT = b"rechannel"
"""Metadata of the columns of tasks: a `Layout`, as JSON."""

_SENT, _KEPT = ("offered", "rows", "keys", "bytes"), ("rows", "bytes")
_SEGMENT = pa.struct(
    [("key", pa.string()), ("level", pa.int64()), ("rows", pa.int64()), ("bytes", pa.int64())]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowest:
    """The task that was busy for the longest time."""

    task: int
    attempt: str
    costs: TaskCosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What the columns of tasks are, their sums, and the slowest task."""

    inputs: tuple[tuple[str, int], ...]
    """What was sent to, as (operator, input)."""
    nodes: tuple[str, ...]
    """Nodes whose rows were kept."""
    sums: Mapping[str, float]
    """By column of numbers that are no identifiers or instants."""
    slowest: Slowest
    judged: Mapping[str, Judged]
    """See `UnitReport`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What does not go by task."""

    operator: str
    timestep: int
    tasks: int
    rows_in: int
    took_ms: float
    times: tuple[Times, ...] = ()
    event_times: Mapping[str, int] = field(default_factory=dict)
    first_timers: Mapping[str, int] = field(default_factory=dict)
    first_processing: Mapping[str, int] = field(default_factory=dict)
    buffered: Mapping[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    sent: tuple[Sent, ...] = ()
    judged: Mapping[str, Judged] = field(default_factory=dict)
    bins: tuple[str, ...] = ()
    hot_keys: tuple[HotKey, ...] = ()
    controls: tuple[tuple[int, ControlReport], ...] = ()
    retire: tuple[tuple[tuple[int, ...], Intervals], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """A blob."""

    facts: bytes
    tasks: bytes
    runs: bytes


@dataclass(frozen=True)
class ReportTable:
    """The report of many tasks (`UnitReport`)."""

    facts: _Facts
    tasks_done: bytes
    """What each task did and wrote: columns, as `columns_of` reads them."""
    runs: RunTable

    @classmethod
    def of(cls, reports: ReportList) -> ReportTable:
        """Fold reports of one operator, in the order of their tasks."""
        reports = ReportList(tuple(sorted(reports.reports, key=lambda report: report.task)))
        edit = reports.edit
        facts = _Facts(
            operator=reports.operator,
            timestep=reports.timestep,
            tasks=reports.tasks,
            rows_in=reports.rows_in,
            took_ms=reports.took_ms,
            times=reports.times,
            event_times=reports.event_times,
            first_timers=reports.first_timers,
            first_processing=reports.first_processing,
            buffered=reports.buffered,
            sent=reports.sent,
            judged=reports.judged,
            bins=reports.bins,
            hot_keys=reports.hot_keys,
            controls=reports.controls,
            retire=_joined(edit.retire),
        )
        return cls(facts, _tasks_done(reports.reports), RunTable.of(edit.add))

    @classmethod
    def from_bytes(cls, data: bytes) -> ReportTable:
        """Invert `to_bytes`."""
        parts = _PARTS.decode(data)
        return cls(_FACTS.decode(parts.facts), parts.tasks, RunTable.from_bytes(parts.runs))

    def to_bytes(self) -> bytes:
        """Write the report as the message of a blob."""
        facts = _ENCODER.encode(self.facts)
        parts = _Parts(facts=facts, tasks=self.tasks_done, runs=self.runs.to_bytes())
        return msgspec.msgpack.encode(parts)

    @property
    def operator(self) -> str:
        """See `UnitReport`."""
        return self.facts.operator

    @property
    def timestep(self) -> int:
        """See `UnitReport`."""
        return self.facts.timestep

    @property
    def tasks(self) -> int:
        """See `UnitReport`."""
        return self.facts.tasks

    @property
    def rows_in(self) -> int:
        """See `UnitReport`."""
        return self.facts.rows_in

    @property
    def took_ms(self) -> float:
        """See `UnitReport`."""
        return self.facts.took_ms

    @cached_property
    def edit(self) -> Edit:
        """See `UnitReport`."""
        return Edit(retire=self.facts.retire, add=self.runs)

    @property
    def times(self) -> tuple[Times, ...]:
        """See `UnitReport`."""
        return self.facts.times

    @property
    def event_times(self) -> Mapping[str, int]:
        """See `UnitReport`."""
        return self.facts.event_times

    @property
    def first_timers(self) -> Mapping[str, int]:
        """See `UnitReport`."""
        return self.facts.first_timers

    @property
    def first_processing(self) -> Mapping[str, int]:
        """See `UnitReport`."""
        return self.facts.first_processing

    @property
    def buffered(self) -> Mapping[str, tuple[tuple[int, str], ...]]:
        """See `UnitReport`."""
        return self.facts.buffered

    @property
    def sent(self) -> tuple[Sent, ...]:
        """See `UnitReport`."""
        return self.facts.sent

    @property
    def judged(self) -> Mapping[str, Judged]:
        """See `UnitReport`."""
        return self.facts.judged

    @property
    def bins(self) -> tuple[str, ...]:
        """See `UnitReport`."""
        return self.facts.bins

    @property
    def hot_keys(self) -> tuple[HotKey, ...]:
        """See `UnitReport`."""
        return self.facts.hot_keys

    @property
    def controls(self) -> tuple[tuple[int, ControlReport], ...]:
        """See `UnitReport`."""
        return self.facts.controls


_ENCODER = msgspec.json.Encoder(enc_hook=plain)
_FACTS = msgspec.json.Decoder(_Facts)
_LAYOUTS = msgspec.json.Decoder(Layout)
_PARTS = msgspec.msgpack.Decoder(_Parts)


def _joined(
    retire: Iterable[tuple[tuple[int, ...], Intervals]],
) -> tuple[tuple[tuple[int, ...], Intervals], ...]:
    """Join the intervals in which runs of the same seqs stop counting: mostly, all tasks merge the same runs."""
    spans: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for seqs, where in retire:
        spans.setdefault(seqs, []).extend(where.spans)
    return tuple((seqs, Intervals.of(each)) for seqs, each in spans.items())


def _tasks_done(reports: Sequence[TaskReport]) -> bytes:
    """Return what each task did and wrote as bytes."""
    inputs = tuple(dict.fromkeys((s.operator, s.input) for r in reports for s in r.emitted.sent))
    nodes = tuple(dict.fromkeys(node for r in reports for node in r.emitted.buffered))
    columns = {
        **_identities(reports),
        **_costs([report.costs for report in reports]),
        **_written(reports),
        **_emitted(reports, inputs, nodes),
    }
    summed = (name for name in columns if name.startswith((MS, COUNT, SENT, KEPT)))
    layout = Layout(
        inputs=inputs,
        nodes=nodes,
        sums={name: columns[name].sum().as_py() or 0 for name in summed},
        slowest=_slowest(reports),
        judged=ReportList(tuple(reports)).judged,
    )
    ordered = (*TIMES, *(name for name in columns if name not in TIMES))
    batch = pa.RecordBatch.from_pydict({name: columns[name] for name in ordered})
    return to_stream(batch.replace_schema_metadata({_LAYOUT: _ENCODER.encode(layout)}))


def _identities(reports: Sequence[TaskReport]) -> dict[str, pa.Array]:
    sparks = [report.spark for report in reports]
    return {
        "task": pa.array([report.task for report in reports], pa.int64()),
        "attempt": pa.array([report.attempt for report in reports], pa.string()),
        "spark_stage": pa.array([each and each.stage for each in sparks], pa.int64()),
        "spark_task": pa.array([each and each.task for each in sparks], pa.int64()),
    }


def _costs(costs: Sequence[TaskCosts]) -> dict[str, pa.Array]:
    columns = {
        "host": pa.array([each.host for each in costs], pa.string()).dictionary_encode(),
        "pid": pa.array([each.pid for each in costs], pa.int64()),
        "started_ms": pa.array([each.started_ms for each in costs], pa.float64()),
        "finished_ms": pa.array([each.finished_ms for each in costs], pa.float64()),
        "cpu_ms": pa.array([each.cpu_ms for each in costs], pa.float64()),
    }
    for name in dict.fromkeys(("wait", *(name for each in costs for name in each.ms))):
        columns[MS + name] = pa.array([each.ms.get(name) for each in costs], pa.float64())
    for name in dict.fromkeys(("rows_in", *(name for each in costs for name in each.counts))):
        columns[COUNT + name] = pa.array([each.counts.get(name) for each in costs], pa.int64())
    # A source task makes no rows of its own.
    rows_out = [each.counts.get("rows_out", each.counts.get("rows_in", 0)) for each in costs]
    columns[f"{COUNT}rows_out"] = pa.array(rows_out, pa.int64())
    return columns


def _written(reports: Sequence[TaskReport]) -> dict[str, pa.Array]:
    states = [report.state for report in reports]
    segments = [[] if each is None else list(map(_segment, each.edit.add)) for each in states]
    return {
        "bins": pa.array([None if each is None else each.bins for each in states], pa.string()),
        "segments": pa.array(segments, pa.list_(_SEGMENT)),
    }


def _segment(run: Run) -> dict[str, str | int]:
    return {"key": run.segment, "level": run.level, "rows": run.rows, "bytes": run.size}


def _emitted(
    reports: Sequence[TaskReport], inputs: Sequence[tuple[str, int]], nodes: Sequence[str]
) -> dict[str, pa.Array]:
    judged = [report.emitted.judged for report in reports]
    texts = [_ENCODER.encode(each).decode() if each else None for each in judged]
    columns = {"judged": pa.array(texts, pa.string())}
    for place, known in enumerate(inputs):
        sent = [_sent_to(report, known) for report in reports]
        for figure in _SENT:
            numbers = [each and getattr(each, figure) for each in sent]
            columns[f"{SENT}{place} {figure}"] = pa.array(numbers, pa.int64())
    for place, node in enumerate(nodes):
        files = [report.emitted.buffered.get(node) for report in reports]
        for figure in _KEPT:
            numbers = [each and getattr(each, figure) for each in files]
            columns[f"{KEPT}{place} {figure}"] = pa.array(numbers, pa.int64())
    return columns


def _slowest(reports: Sequence[TaskReport]) -> Slowest:
    found = max(reports, key=lambda report: _busy_ms(report.costs))
    return Slowest(task=found.task, attempt=found.attempt, costs=found.costs)


def _busy_ms(costs: TaskCosts) -> float:
    return costs.finished_ms - costs.started_ms - costs.ms.get("wait", 0.0)


def _sent_to(report: TaskReport, known: tuple[str, int]) -> Sent | None:
    return next((s for s in report.emitted.sent if (s.operator, s.input) == known), None)


def columns_of(tasks_done: bytes, *, all_columns: bool) -> tuple[pa.RecordBatch, Layout]:
    """Return what each task did as columns: all of them, or `TIMES`."""
    batch = from_stream(tasks_done, () if all_columns else range(len(TIMES)))
    return batch, _LAYOUTS.decode(batch.schema.metadata[_LAYOUT])


def fold(batches: Iterable[pa.RecordBatch], many: int = MANY) -> Iterator[pa.RecordBatch]:
    """Fold the reports of each operator that has many of them into one blob; pass on those of others.

    many: how many are. Raises ValueError for a blob that is no report.
    """
    bodies = list[bytes]()
    for blob in from_batches(batches):
        if blob.kind != REPORT:
            msg = f"a blob of kind {blob.kind} is among reports"
            raise ValueError(msg)
        bodies.append(blob.message.to_pybytes())
    made = list[bytes]()
    for reports in by_operator(map(TaskReport.from_bytes, bodies)):
        if reports.tasks >= many:
            made.append(_blob(ReportTable.of(reports).to_bytes()))
        else:
            made += [report.blob() for report in reports.reports]
    yield from to_batches((0, blob) for blob in made)


def _blob(message: bytes) -> bytes:
    return pack(
        Blob(
            kind=REPORT_TABLE,
            input=0,
            producer=0,
            sequence=0,
            combined=False,
            rows=0,
            message=pa.py_buffer(message),
        )
    )
