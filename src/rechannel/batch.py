"""One program, batch and stream: the same dataflow over finished input, as one timestep."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rechannel.dataflow.graph.nodes import (
    Dataflow,
    MapBatches,
    Node,
    Sink,
    Source,
    Stateful,
    Transform,
    Union,
)
from rechannel.dataflow.streams.stream import Stream, dataflow_of, one_session
from rechannel.dataflow.streams.writer import Flow
from rechannel.errors import DataflowError, TimestepError, UnknownOperatorError
from rechannel.job import InProcess, Job
from rechannel.kernels.shuffle.watermarks import EventTime
from rechannel.running import RunningJob
from rechannel.settings import Settings
from rechannel.sinks.failure import OnFailure
from rechannel.sinks.outlets import ForEachBatchOutlet
from rechannel.sources.finite import FiniteConnector
from rechannel.sources.frame import HandoverConnector
from rechannel.sources.spark_types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class BatchResult:
    """What a batch run gave. A context manager: leaving it deletes the files that its DataFrames read."""

    def __init__(self, job: RunningJob, outputs: dict[str, Any], directory: Path | None) -> None:
        """Take the finished job."""
        self._job = job
        self._outputs = outputs
        self._directory = directory

    def __repr__(self) -> str:
        return f"<BatchResult of {self._job.name!r}: sinks {sorted(self._outputs)}>"

    def output(self, sink: str | None = None) -> DataFrame | pa.Table:
        """Return the rows that a sink received: a DataFrame on Spark, an Arrow table in process.

        Args:
            sink: its name; None if there is one sink.
        """
        if sink is None and len(self._outputs) == 1:
            return next(iter(self._outputs.values()))
        if sink is None:
            msg = f"there are several sinks: name one of {sorted(self._outputs)}, as in output({min(self._outputs)!r})"
            raise UnknownOperatorError(msg)
        if sink not in self._outputs:
            msg = f"there is no sink {sink!r}; there are {sorted(self._outputs)}"
            raise UnknownOperatorError(msg)
        return self._outputs[sink]

    def state(self, operator: str) -> DataFrame | pa.Table:
        """Final state of an operator, as `job.state`."""
        return self._job.state(operator)

    def sql(self, query: str) -> DataFrame | pa.Table:
        """The answer to a SQL query over final state, as `job.sql`."""
        return self._job.sql(query)

    def state_table(self, operator: str) -> pa.Table:
        """Final state exactly as stored, as `job.state_table`."""
        return self._job.state_table(operator)

    def close(self) -> None:
        """Delete the run's files."""
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> BatchResult:
        """Use until the block ends."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Delete the run's files."""
        self.close()


def run_batch(
    flows: Flow | Stream | Sequence[Flow | Stream],
    *,
    inputs: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    spark: Any | None = None,
    directory: str | None = None,
    in_process: InProcess | None = None,
) -> BatchResult:
    """Run a dataflow over finished input in one timestep, with the code that runs it as a stream.

    No row will come any more: every window is complete, and only rows without a time are late.

    Nothing is written to the dataflow's sinks: their rows are in the result.

    Args:
        flows: one or several ends, as for a job.
        inputs: DataFrames (Arrow tables in process) by source name, in place of those sources. The others are read to
            the end that they have when the run begins: a source that bounds its timesteps itself is asked until it
            has nothing new.
        settings: as for a job.
        spark: the session; None = that of the dataflow's sources.
        directory: where the run makes a directory for its own files, on a file system that all executors see; None =
            a temporary one.
        in_process: run without Spark.

    Raises:
        DataflowError: a source never ends.
        SourceError: a Python data source does not seem to end.
        UnknownOperatorError: `inputs` names a source that does not exist.
    """
    ends = [flows] if isinstance(flows, Flow | Stream) else list(flows)
    dataflow = dataflow_of(*ends)
    outputs: dict[str, Any] = {}
    session = spark if spark is not None else one_session(*ends)
    finite = _finite(dataflow, dict(inputs or {}), outputs, session)
    place = _place(directory)
    job = Job(
        "batch",
        finite,
        state=place / "state",
        settings=settings,
        spark=session,
    )
    try:
        running = job.start(in_process=in_process)
        try:
            running.process_all_available()
        finally:
            running.stop()
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return BatchResult(running, outputs, place)


def _finite(
    dataflow: Dataflow, given: dict[str, Any], outputs: dict[str, Any], session: Any | None
) -> list[Flow | Stream]:
    """The ends of the same dataflow over finished input; its sinks put their rows into `outputs`."""
    unknown = set(given) - {n.name for n in dataflow.nodes if isinstance(n, Source)}
    if unknown:
        msg = f"there is no source {sorted(unknown)}; sources are named with name="
        raise UnknownOperatorError(msg)
    rebuilt = _Rebuild(given, outputs)
    ends: list[Flow | Stream] = []
    for node in map(rebuilt.node, _ends(dataflow)):
        made = Flow if isinstance(node, Sink) else Stream
        ends.append(made(node=node, session=session))
    return ends


def _place(directory: str | None) -> Path:
    """Where the run's own files lie: nothing else does, for it is deleted with them."""
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="rechannel-batch-"))
    if "://" in directory:
        msg = (
            f"run_batch(directory={directory!r}): give a directory of a file system that is mounted on all machines,"
            " not a URL: it is deleted after the run"
        )
        raise DataflowError(msg)
    return Path(directory) / f"rechannel-batch-{uuid.uuid4().hex}"


def _ends(dataflow: Dataflow) -> list[Node]:
    """Nodes whose rows no other node takes."""
    return [node for node in dataflow.nodes if not any(True for _ in dataflow.consumers(node))]


class _Rebuild:
    """Copies a graph with other sources and sinks."""

    def __init__(self, given: dict[str, Any], outputs: dict[str, Any]) -> None:
        self._given = given
        self._outputs = outputs
        self._made: dict[int, Node] = {}

    def node(self, node: Node) -> Any:
        """The copy of a node; nodes that are shared stay shared."""
        made = self._made.get(id(node))
        if made is None:
            made = self._made[id(node)] = self._copy(node)
        return made

    def _copy(self, node: Node) -> Node:
        if isinstance(node, Source):
            return self._source(node)
        if isinstance(node, Union):
            return replace(node, inputs=tuple(self.node(child) for child in node.inputs))
        if isinstance(node, Sink):
            return replace(
                node,
                upstream=self.node(node.upstream),
                outlet=self._collecting(node.name),
                failure=OnFailure(),  # dead letters are the job's
            )
        if isinstance(node, MapBatches) and isinstance(node.function, EventTime):
            ended = replace(node.function, finished=True)
            return replace(node, upstream=self.node(node.upstream), function=ended)
        if isinstance(node, Stateful) and (node.spec.processing or node.spec.processing_beside):
            over: Any = replace(node.spec, finished=True)  # type: ignore[type-var]
            return replace(self._operator(node), spec=over)
        if isinstance(node, Stateful):
            return self._operator(node)
        if isinstance(node, Transform | MapBatches):
            return replace(node, upstream=self.node(node.upstream))
        raise TypeError(node)

    def _operator(self, node: Stateful) -> Stateful:
        tables = tuple(self.node(table) for table in node.broadcasts)
        return replace(node, upstream=self.node(node.upstream), broadcasts=tables)

    def _source(self, node: Source) -> Source:
        if node.name in self._given:
            frame = self._given[node.name]
            made = HandoverConnector(schema=_columns(frame))
            made.handover.put(0, frame)
            return replace(node, connector=FiniteConnector(inner=made))
        if node.connector.endless is not None:
            msg = f"source {node.name!r} {node.connector.endless}; give its rows with inputs={{{node.name!r}: df}}"
            raise DataflowError(msg)
        # All of it is due in the first timestep, whatever bounds the timesteps of a stream.
        return replace(node, connector=FiniteConnector(inner=node.connector.unbounded()))

    def _collecting(self, name: str) -> ForEachBatchOutlet:
        first: list[int] = []

        def collect(rows: Any, timestep: int) -> None:
            first.append(timestep)
            if timestep != first[0]:
                msg = f"a batch run is one timestep, and sink {name!r} is given rows of {timestep}"
                raise TimestepError(msg)
            self._outputs[name] = rows

        return ForEachBatchOutlet(function=collect)


def _columns(frame: Any) -> pa.Schema:
    if isinstance(frame, pa.Table):
        return frame.schema
    return arrow_schema(frame.schema)
