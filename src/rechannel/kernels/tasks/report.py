"""What a task reports of its work. Reports travel among the data, so only those of successful attempts arrive, once.

It travels as one JSON object in a blob. The driver decodes it once, into a `TaskReport`. It is kept nowhere, so only
a driver of the same version reads it. msgspec is much faster than the journal's codec, which counts where there are
thousands of tasks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from rechannel.kernels.shuffle.wire import REPORT, Blob, pack
from rechannel.model.codec import Json, row, sparse
from rechannel.model.eventtime import Times
from rechannel.state.manifest import Edit


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTask:
    """Spark's names of a task."""

    stage: int
    """`TaskContext.stageId()`."""
    task: int
    """`TaskContext.taskAttemptId()`: unique in a Spark application."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCosts:
    """What a task measured of itself. Instants are in milliseconds since 1970, on the worker's clock."""

    host: str
    pid: int
    started_ms: float
    finished_ms: float
    cpu_ms: float
    """Processor time of the worker process while the task ran."""
    ms: Mapping[str, float]
    """Milliseconds by activity; they do not overlap."""
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a task sent to one input of an operator downstream."""

    operator: str
    input: int
    offered: int
    """Rows before map-side combine."""
    rows: int
    """Rows that were sent."""
    keys: int
    """Distinct keys among the rows offered, counted per chunk."""
    bytes: int

    def plus(self, other: Sent) -> Sent:
        """Return what both sent to one input."""
        return Sent(
            operator=self.operator,
            input=self.input,
            offered=self.offered + other.offered,
            rows=self.rows + other.rows,
            keys=self.keys + other.keys,
            bytes=self.bytes + other.bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferFile:
    """A file of a sink buffer."""

    key: str
    rows: int
    bytes: int


EXAMPLE = 500
"""Most characters of a bad row, and of its error, in a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How many rows an operator received that may be bad, and how many were."""

    rows: int = 0
    bad: int = 0
    example: str = ""
    """One of those that were, with the error; "" if there is none."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """By expectation: rows that do not meet it."""

    def plus(self, other: Judged) -> Judged:
        """Return both together."""
        names = {**self.failed, **other.failed}
        return Judged(
            rows=self.rows + other.rows,
            bad=self.bad + other.bad,
            example=self.example or other.example,
            failed={n: self.failed.get(n, 0) + other.failed.get(n, 0) for n in names},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """Rows and event times that a task emitted."""

    sent: tuple[Sent, ...] = ()
    buffered: Mapping[str, BufferFile] = field(default_factory=dict)
    """By node: the rows that sinks and DataFrame functions read."""
    event_times: Mapping[str, int] = field(default_factory=dict)
    """By time input: the latest event time that the task knows."""
    judged: Mapping[str, Judged] = field(default_factory=dict)
    """By node that has bad rows, or expectations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HotKey:
    """A key that has a large part of a task's rows."""

    hash: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateReport:
    """What a task of a stateful stage did to its state."""

    edit: Edit
    times: Times | None = None
    """Event time of the operator after the timestep; None = it does not go by event time."""
    bins: str | None = None
    """Rows received per bin, as `binned.pack_bins` writes them; None = no rows."""
    hot_keys: tuple[HotKey, ...] = ()
    first_timers: Mapping[str, int] = field(default_factory=dict)
    """By segment that was read: the first event time after this timestep that one of its rows waits for."""
    first_processing: Mapping[str, int] = field(default_factory=dict)
    """The same of processing time, of an operator that goes by both."""


IN_DRIVER = -1
"""The task of a reply that failed where the last replies are read and merged."""


@row
@dataclass(frozen=True, slots=True, kw_only=True)
class FailedReply:
    """A handler of a control operation that failed in a task."""

    operator: str
    task: int
    """Its number; IN_DRIVER = none."""
    error: str
    """Its traceback, or why its reply was refused; cut to `ERROR_CHARACTERS`."""


@sparse
@dataclass(frozen=True, slots=True, kw_only=True)
class ControlReport:
    """What a control operation has gathered in a task and everything upstream of it."""

    operation: str
    replies: Mapping[str, Json] = field(default_factory=dict)
    """By operator, merged."""
    failures: tuple[FailedReply, ...] = ()
    """The first of the replies that failed."""
    more: int = 0
    """How many others failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """The report of the successful attempt of a task."""

    operator: str
    timestep: int
    task: int
    attempt: str
    """The attempt's name, as in the files that it wrote."""
    costs: TaskCosts
    emitted: Emitted = field(default_factory=Emitted)
    state: StateReport | None = None
    """None for a stage without state."""
    spark: SparkTask | None = None
    """None if the task ran in-process."""
    controls: tuple[ControlReport, ...] = ()
    """Control operations that end here: the task has no consumers."""

    def to_bytes(self) -> bytes:
        """Write the report as JSON. What is no text in a text, such as half a surrogate pair, becomes "?"."""
        try:
            return _ENCODER.encode(self)
        except UnicodeEncodeError:
            return json.dumps(_readable(msgspec.to_builtins(self, enc_hook=plain))).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> TaskReport:
        """Invert `to_bytes`."""
        return _DECODER.decode(data)

    def blob(self) -> bytes:
        """Write the report as a blob that travels among the data."""
        return report_blob(self.task, self.to_bytes())


_PLAIN: tuple[tuple[type, Callable[[Any], object]], ...] = (
    (str, str),
    (float, float),
    (int, int),
    (Mapping, dict),
)


def plain(value: object) -> object:
    """Return a subclass's value in the type that msgspec knows: derived names, for example, are texts."""
    for kind, of in _PLAIN:
        if isinstance(value, kind):
            return of(value)
    msg = f"a report cannot hold {type(value).__name__}"
    raise TypeError(msg)


_ENCODER = msgspec.json.Encoder(enc_hook=plain)
_DECODER = msgspec.json.Decoder(TaskReport)


def _readable(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_readable(name): _readable(each) for name, each in value.items()}
        case list() | tuple():
            return [_readable(each) for each in value]
        case _:
            return value


def report_blob(task: int, body: bytes) -> bytes:
    """Wrap the bytes of a report for the exchange; a task passes on reports of other tasks unread."""
    return pack(
        Blob(
            kind=REPORT,
            input=0,
            producer=task,
            sequence=0,
            combined=False,
            rows=0,
            message=pa.py_buffer(body),
        )
    )
