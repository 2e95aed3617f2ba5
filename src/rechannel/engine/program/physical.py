"""Compile a dataflow into stages: which nodes run together, and how rows get from one to the next. Pure.

The theory. Three kinds of code meet in a dataflow: DataFrame functions, which the JVM runs, and Arrow functions and
stateful operators, which Python tasks run. A *stage* is one Python task per partition:

- a *source stage* reads a frame (a source, or rows that an earlier stage kept, through DataFrame functions) and sends
  its rows downstream;
- a *stateful stage* receives blobs and sends what its operator emits.

What a stage emits goes down a tree of Arrow functions to operators (through an exchange) and, if a sink or a DataFrame
function comes next, into a sink buffer: one durable Arrow file per task, which the commit names. So a sink never makes
an operator run again, and what it publishes after a crash is what was committed.

Arrow functions always run inside a stage. A DataFrame function becomes part of the frame of the next node, unless that
node is an Arrow function or an operator, or there are several next nodes: then its rows are read by a source stage. A
sink directly after frames needs no Python: it is written from its frame. Each of several DataFrame functions that read
one source reads it separately. A source stage reads only the columns that its functions, operators or sinks need
(`pruning`).

A union has no stage: a consumer of a union reads each of its inputs. Rows take different *ways* through unions and
Arrow functions to an operator. The number of the way is the input at which they arrive, so that an operator which
depends on the order of rows sees the rows of one input of a union after those of the previous input. What a sink reads
is either all frames or all sink buffers: if a union mixes the two, its frames become source stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from rechannel.dataflow.checks.changelogs import has_changelog
from rechannel.dataflow.graph.naming import origins
from rechannel.dataflow.graph.nodes import (
    Changelog,
    Dataflow,
    DeadLetters,
    Late,
    MapBatches,
    Node,
    SideOutput,
    Sink,
    Source,
    Stateful,
    Transform,
    Union,
)
from rechannel.dataflow.graph.timing import time_inputs, time_names
from rechannel.engine.program.pruning import pruned
from rechannel.errors import DataflowError
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.kernels.protocol.program import CHANGES, DEAD, LATE, OUTPUT, Branch, Consumer
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.model.eventtime import TimeInput
from rechannel.sources.replayed.connector import ReplayedConnector


@dataclass(frozen=True, kw_only=True)
class SourceFrame:
    """Rows of a source between two offsets."""

    source: Source


@dataclass(frozen=True, kw_only=True)
class SinkBufferFrame:
    """Rows of a node that an earlier stage kept in this timestep."""

    node: str
    schema: pa.Schema


@dataclass(frozen=True, kw_only=True)
class ApplyFrame:
    """A DataFrame function over a frame."""

    transform: Transform
    child: Frame


@dataclass(frozen=True, kw_only=True)
class UnionFrame:
    """Rows of several frames, one after the other."""

    children: tuple[Frame, ...]


KEPT = ".kept"
"""Suffix of the stage that reads what a materialised DataFrame function wrote to its sink buffer."""

Frame = SourceFrame | SinkBufferFrame | ApplyFrame | UnionFrame


def leaves(frame: Frame) -> Iterator[SourceFrame | SinkBufferFrame]:
    """Yield the frames that the rows of a frame come from."""
    if isinstance(frame, SourceFrame | SinkBufferFrame):
        yield frame
    elif isinstance(frame, UnionFrame):
        for child in frame.children:
            yield from leaves(child)
    else:
        yield from leaves(frame.child)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One operator, or one source, as it runs."""

    name: str
    """Name of the node."""
    root: Branch
    """What happens to its rows."""
    frame: Frame | None = None
    """What a source stage reads; None for a stateful stage."""
    logic: StatefulLogic | None = None
    """Logic of a stateful stage; None for a source stage."""
    producers: tuple[str, ...] = ()
    """Stages whose exchanges a stateful stage reads, by input number."""
    after: tuple[str, ...] = ()
    """Stages whose sink buffers it reads."""
    times: tuple[TimeInput, ...] = ()
    """Time inputs that define the event time of a stateful stage."""
    origins: tuple[str, ...] = ()
    """Time inputs of the rows at the root."""
    broadcasts: Mapping[str, str] = field(default_factory=dict)
    """By name of a broadcast input, the operator whose table it is."""
    can: Capabilities | None = field(init=False, repr=False, compare=False)
    """What the logic can do; None for a source stage."""

    def __post_init__(self) -> None:
        """Look for the logic's capabilities."""
        found = None if self.logic is None else Capabilities(self.logic)
        object.__setattr__(self, "can", found)

    @property
    def consumers(self) -> tuple[tuple[str, int], ...]:
        """(operator, input) of everything that reads this stage's exchange, in a fixed order."""
        return tuple((c.operator, c.input) for b in self.root.walk() for c in b.consumers)

    @property
    def reports_apart(self) -> bool:
        """Whether reports have a partition of their own, because downstream stages of the timestep wait for them."""
        return bool(self.consumers) and (self.logic is not None or bool(self.kept))

    @property
    def needs(self) -> tuple[str, ...]:
        """Stages that must have run in the same timestep."""
        return tuple(dict.fromkeys((*self.producers, *self.after, *self.broadcasts.values())))

    @property
    def kept(self) -> tuple[str, ...]:
        """Nodes whose rows this stage writes to sink buffers."""
        return tuple(b.node for b in self.root.walk() if b.sink_buffer)


@dataclass(frozen=True, kw_only=True)
class SinkPlan:
    """A sink and the frame that it writes."""

    sink: Sink
    frame: Frame
    schema: pa.Schema
    direct: bool
    """Whether it is written directly from sources, before the commit, without a stage."""

    def __post_init__(self) -> None:
        """Check that the rows of a sink that needs them later are kept somewhere. Raises DataflowError."""
        if not self.direct:
            return
        then, kind = self.sink.failure.then, self.sink.outlet.describe()
        impossible = f"on_failure({then!r})" if then != "stop" else ""
        impossible = kind if self.sink.outlet.keeps_rows else impossible
        if impossible:
            msg = (
                f"sink {self.sink.name!r} ({self.sink.where}) is written directly from a source, before its timestep is"
                f" committed. Its rows are not kept, so {impossible} is not possible: put an operator between source"
                " and sink, such as select(...) of the columns"
            )
            raise DataflowError(msg)


@dataclass(frozen=True, kw_only=True)
class PhysicalPlan:
    """All stages, producers first, and all sinks."""

    stages: tuple[Stage, ...]
    sinks: tuple[SinkPlan, ...]
    sources: tuple[Source, ...]
    dataflow: Dataflow

    def stage(self, name: str) -> Stage:
        """Return the stage of a name."""
        return next(stage for stage in self.stages if stage.name == name)

    def keeper(self, node: str) -> str:
        """Return the name of the stage that writes a node's rows to a sink buffer."""
        return next(stage.name for stage in self.stages if node in stage.kept)

    @property
    def broadcast(self) -> frozenset[str]:
        """Operators whose tables are broadcast inputs of others."""
        return frozenset(name for stage in self.stages for name in stage.broadcasts.values())

    @property
    def stateful(self) -> tuple[Stage, ...]:
        """Stages with state."""
        return tuple(stage for stage in self.stages if stage.logic is not None)


def compile_plan(
    dataflow: Dataflow, schemas: Mapping[str, pa.Schema], logics: Mapping[str, StatefulLogic]
) -> PhysicalPlan:
    """Cut a dataflow into stages.

    schemas: columns of every node. logics: bound logic of every stateful operator.
    """
    compiler = _Compiler(dataflow, schemas, logics)
    stages = [
        stage
        for node in dataflow.nodes
        if compiler.is_root(node)
        for stage in compiler.stages(node)
    ]
    sinks = [compiler.sink(node) for node in dataflow.nodes if isinstance(node, Sink)]
    # A stage drops rows that no sink needs as it produces them; a frame has to be executed even for a noop sink.
    sinks = [sink for sink in sinks if sink.direct or not sink.sink.outlet.drops_rows]
    sources = tuple(node for node in dataflow.nodes if isinstance(node, Source))
    return PhysicalPlan(
        stages=tuple(stages), sinks=tuple(sinks), sources=sources, dataflow=dataflow
    )


Way = tuple[tuple[int, int], ...]
"""How rows get from the root of a stage to a node: (id of node, number of its input) of each node on the way."""


@dataclass
class _Compiler:
    dataflow: Dataflow
    schemas: Mapping[str, pa.Schema]
    logics: Mapping[str, StatefulLogic]
    fronts: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Find the nodes that need a source stage only because a sink also reads sink buffers."""
        found = True
        while found:
            mixed = {id(node) for sink in self.dataflow.nodes for node in self._mixed(sink)}
            found = bool(mixed - self.fronts)
            self.fronts |= mixed

    def _mixed(self, sink: Node) -> list[Node]:
        """Return what a sink reads from sources, if it reads sink buffers as well."""
        if not isinstance(sink, Sink) or sink.outlet.drops_rows:
            return []
        read = [(node, list(leaves(self.frame(node, sink)))) for node in _inputs(sink.upstream)]
        sourced = [[isinstance(leaf, SourceFrame) for leaf in found] for _, found in read]
        if all(map(all, sourced)):
            return []
        return [node for (node, _), some in zip(read, sourced, strict=True) if any(some)]

    def users(self, node: Node) -> list[Node]:
        """Return the consumers of a node, looking through unions."""
        out: list[Node] = []
        for user in self.dataflow.consumers(node):
            out.extend(self.users(user) if isinstance(user, Union) else [user])
        return out

    def is_root(self, node: Node) -> bool:
        """Return whether a stage reads or produces the rows of a node."""
        if id(node) in self.fronts:
            return True
        users = self.users(node)
        needs_python = any(isinstance(user, Stateful | MapBatches) for user in users)
        if isinstance(node, Transform):
            return needs_python or len(users) > 1 or node.materialise
        return isinstance(node, Stateful) or (isinstance(node, Source) and needs_python)

    def frame(self, node: Node, user: Node) -> Frame:
        """Return the rows of a node as a frame for one of its users."""
        if isinstance(node, Union):
            return UnionFrame(children=tuple(self.frame(child, user) for child in node.inputs))
        if isinstance(node, Source) and not (isinstance(user, Sink) and self.is_root(node)):
            return SourceFrame(source=node)
        if isinstance(node, Transform) and not self.is_root(node):
            return self.apply(node)
        return SinkBufferFrame(node=node.name, schema=self.schemas[node.name])

    def apply(self, node: Transform) -> ApplyFrame:
        """Return a DataFrame function over the frame of its input."""
        return ApplyFrame(transform=node, child=self.frame(node.upstream, node))

    def ways(self, node: Node) -> list[Way]:
        """Return every way from the roots of stages to a node, in the order of the unions on it."""
        if isinstance(node, Union):
            inputs = enumerate(node.inputs)
            return [(*way, (id(node), i)) for i, child in inputs for way in self.ways(child)]
        before = self.ways(node.upstream) if isinstance(node, MapBatches) else [()]
        return [(*way, (id(node), 0)) for way in before]

    def onward(self, way: Way, node: Node) -> Iterator[tuple[int, Way]]:
        """Yield the ways to a node that extend a way by unions only, with their numbers."""
        unions = {id(node) for node in self.dataflow.nodes if isinstance(node, Union)}
        for number, longer in enumerate(self.ways(node)):
            rest = longer[len(way) :]
            if longer[: len(way)] == way and all(passed in unions for passed, _ in rest):
                yield number, longer

    def branch(self, node: Node, way: Way) -> Branch:
        """Return what happens to a node's rows inside its stage, for rows that came by a way."""
        users = self.users(node)
        keep = any(
            (isinstance(user, Transform) and not isinstance(node, Source))
            or (isinstance(user, Sink) and not user.outlet.drops_rows)
            for user in users
        )
        return Branch(
            node=node.name,
            schema=self.schemas[node.name],
            function=node.function if isinstance(node, MapBatches) else None,
            side=_side(node),
            consumers=tuple(self._consumers(way)),
            sink_buffer=keep,
            branches=tuple(self._branches(way)),
            source=self._only_source(way),
            replayed=self._replayed(way, node),
        )

    def _only_source(self, way: Way) -> str | None:
        """Return the name of the source that rows which came by a way are from; None if there are several."""
        first = next(node for node in self.dataflow.nodes if id(node) == way[0][0])
        sources = [
            node
            for node in origins(first)
            if isinstance(node, Source) and not node.connector.rereadable
        ]
        return str(sources[0].name) if len(sources) == 1 else None

    def _replayed(self, way: Way, node: Node) -> bool:
        """Return whether the rows that come by a way to a node are dead letters of this node."""
        first = next(node for node in self.dataflow.nodes if id(node) == way[0][0])
        connector = first.connector if isinstance(first, Source) else None
        return isinstance(connector, ReplayedConnector) and connector.operator == node.name

    def _consumers(self, way: Way) -> Iterator[Consumer]:
        for user in self.dataflow.nodes:
            if isinstance(user, Stateful):
                for number, _ in self.onward(way, user.upstream):
                    logic = self.logics[user.name]
                    yield Consumer(operator=user.name, input=number, logic=logic)

    def _branches(self, way: Way) -> Iterator[Branch]:
        for user in self.dataflow.nodes:
            if isinstance(user, MapBatches):
                for _, longer in self.onward(way, user.upstream):
                    yield self.branch(user, (*longer, (id(user), 0)))

    def roots(self, node: Node) -> list[str]:
        """Return the names of the stages that produce a node's rows."""
        if isinstance(node, Union | MapBatches):
            return [name for up in node.upstreams for name in self.roots(up)]
        if isinstance(node, Transform) and node.materialise:
            return [node.name + KEPT]
        return [node.name]

    def stages(self, node: Node) -> list[Stage]:
        """Return the stage of a root, or two for a materialised function: one keeps the rows, one sends them."""
        stage = self.stage(node)
        if not (isinstance(node, Transform) and node.materialise):
            return [stage if stage.frame is None else replace(stage, root=pruned(stage.root))]
        keeping = Branch(node=node.name, schema=stage.root.schema, sink_buffer=True)
        out = [replace(stage, root=keeping)]
        if stage.consumers or stage.root.branches:
            kept = SinkBufferFrame(node=node.name, schema=stage.root.schema)
            sending = pruned(replace(stage.root, sink_buffer=False))
            name = node.name + KEPT
            out.append(replace(stage, name=name, root=sending, frame=kept, after=(node.name,)))
        return out

    def stage(self, node: Node) -> Stage:
        """Return the stage of a root."""
        root = self.branch(node, ((id(node), 0),))
        if isinstance(node, Stateful):
            producers = tuple(dict.fromkeys(self.roots(node.upstream)))
            logic = self.logics[node.name]
            return Stage(
                name=node.name,
                root=root,
                logic=logic,
                producers=producers,
                times=time_inputs(node, changelog=has_changelog(self.dataflow, node)),
                origins=time_names(node),
                broadcasts=dict(
                    zip(node.spec.broadcast, (n.name for n in node.broadcasts), strict=True)
                ),
            )
        if isinstance(node, Source):
            return Stage(name=node.name, root=root, frame=SourceFrame(source=node))
        if isinstance(node, Transform):
            frame = self.apply(node)
            after, origins = self._after(frame), time_names(node)
            return Stage(name=node.name, root=root, frame=frame, after=after, origins=origins)
        msg = f"{node.name!r} cannot be the root of a stage"
        raise TypeError(msg)

    def _after(self, frame: Frame) -> tuple[str, ...]:
        kept = [leaf.node for leaf in leaves(frame) if isinstance(leaf, SinkBufferFrame)]
        names = (
            name.removesuffix(KEPT)
            for node in kept
            for name in self.roots(self.dataflow.by_name[node])
        )
        return tuple(dict.fromkeys(names))

    def sink(self, node: Sink) -> SinkPlan:
        """Return the plan of a sink."""
        frame = self.frame(node.upstream, node)
        return SinkPlan(
            sink=node,
            frame=frame,
            schema=self.schemas[node.upstream.name],
            direct=all(isinstance(leaf, SourceFrame) for leaf in leaves(frame)),
        )


def _side(node: Node) -> str:
    """Return which side output a node is; empty for other nodes."""
    if isinstance(node, DeadLetters):
        return DEAD
    if isinstance(node, Changelog):
        return CHANGES
    if isinstance(node, SideOutput):
        return OUTPUT + node.output
    return LATE if isinstance(node, Late) else ""


def _inputs(node: Node) -> list[Node]:
    """Return the inputs of a union with nested unions flattened; for any other node, the node itself."""
    if isinstance(node, Union):
        return [leaf for child in node.inputs for leaf in _inputs(child)]
    return [node]
