"""The dataflow as frozen values: what the user wrote, nothing else.

Building a graph runs nothing. Every node keeps a stable name (keys of state, metrics and errors) and the
user's file and
line (for messages). Columns of a node are known here only where they need no engine to be known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from rechannel.kernels.protocol.program import BatchFunction
from rechannel.operators.spec import OperatorSpec
from rechannel.sinks.failure import OnFailure
from rechannel.sinks.outlet import Outlet
from rechannel.sources.connector import Connector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FrameFunction = Callable[["DataFrame"], "DataFrame"]
"""A deterministic function of a Spark DataFrame."""

Preload = Callable[[], "DataFrame"]
"""Makes the state to start from: a DataFrame of key and state columns, one row per key.

State columns are named as the operator's output, for operators whose output is their state (count, sum,
track, ...). A track with a timeout also needs a bigint column: `_seen`, Unix milliseconds, or, with event
time or `expired`, `_until`, Unix microseconds.
"""


@dataclass(frozen=True, slots=True)
class Where:
    """Where the user wrote something."""

    file: str
    line: int

    def __str__(self) -> str:
        """Clickable form."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """A node of the graph."""

    name: str
    where: Where

    @property
    def upstreams(self) -> tuple[Node, ...]:
        """Nodes that this one depends on, in order: those whose rows it receives, then its broadcast inputs."""
        return ()

    @property
    def feeds(self) -> tuple[Node, ...]:
        """Nodes whose rows this one receives."""
        return self.upstreams


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source(Node):
    """Rows from outside. tasks: that read it at most when the stream begins; None = the job's default."""

    connector: Connector
    tasks: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transform(Node):
    """A DataFrame -> DataFrame function.

    materialise: the user allows a non-deterministic function; its result is kept and never computed twice.
    """

    upstream: Node
    function: FrameFunction
    materialise: bool = False

    @property
    def upstreams(self) -> tuple[Node, ...]:
        """The one upstream."""
        return (self.upstream,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapBatches(Node):
    """A record batch -> record batch function. schema: its output's columns; None = as its input's."""

    upstream: Node
    function: BatchFunction
    schema: pa.Schema | None

    @property
    def upstreams(self) -> tuple[Node, ...]:
        """The one upstream."""
        return (self.upstream,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side(MapBatches):
    """Rows that leave the node upstream beside its own. They have no event time but what is declared after it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Late(Side):
    """Rows that came too late for the operator upstream, as it received them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeadLetters(Side):
    """Rows that the node upstream cannot handle, as texts, with the error (`kernels.dead_letters`)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Changelog(Side):
    """What happens to the table that the rows of the operator upstream make up (`model.changelog`)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SideOutput(Side):
    """Rows of one of the side outputs of the operator upstream. output: its name."""

    output: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Union(Node):
    """Rows of several streams with the same columns."""

    inputs: tuple[Node, ...]

    @property
    def upstreams(self) -> tuple[Node, ...]:
        """All inputs, in the order written."""
        return self.inputs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Paired(Union):
    """Rows of the two sides of an operator, each marked (`kernels.sides`). keys: what both sides call the same."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stateful(Node):
    """A keyed operator with state.

    tasks, bins: starting parallelism and number of bins; None = the job's default.
    initial: state to start from, as a function that makes a DataFrame (key columns and output columns), or None.
    broadcasts: operators whose tables its tasks read whole, in the order of `spec.broadcast`.
    """

    upstream: Node
    keys: tuple[str, ...]
    spec: OperatorSpec
    tasks: int | None = None
    bins: int | None = None
    initial: Preload | None = None
    broadcasts: tuple[Node, ...] = ()

    @property
    def upstreams(self) -> tuple[Node, ...]:
        """What its own rows come from, then its broadcast inputs."""
        return (self.upstream, *self.broadcasts)

    @property
    def feeds(self) -> tuple[Node, ...]:
        """What its own rows come from."""
        return (self.upstream,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sink(Node):
    """Rows leave here. failure: what becomes of it where it cannot write."""

    upstream: Node
    outlet: Outlet
    failure: OnFailure = field(default_factory=OnFailure)

    @property
    def upstreams(self) -> tuple[Node, ...]:
        """The one upstream."""
        return (self.upstream,)


@dataclass(frozen=True, slots=True, eq=False)
class Dataflow:
    """A whole graph, given by its sinks (and operators without a sink), in topological order."""

    nodes: tuple[Node, ...]
    by_name: Mapping[str, Node] = field(init=False)

    def __post_init__(self) -> None:
        """Index the nodes by name."""
        index = MappingProxyType({node.name: node for node in self.nodes})
        object.__setattr__(self, "by_name", index)

    @classmethod
    def of(cls, *ends: Node) -> Dataflow:
        """Collect everything upstream of the given nodes, inputs before users, in a stable order."""
        seen: dict[int, Node] = {}

        def visit(node: Node) -> None:
            if id(node) in seen:
                return
            for upstream in node.upstreams:
                visit(upstream)
            seen[id(node)] = node

        for end in ends:
            visit(end)
        return cls(tuple(seen.values()))

    def consumers(self, node: Node) -> Iterator[Node]:
        """Nodes that receive the rows of a node."""
        return (user for user in self.nodes if any(up is node for up in user.upstreams))
