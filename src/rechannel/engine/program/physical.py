"""From the dataflow to stages: which nodes run together, and how rows get from one to the next. Pure.

The theory. Three kinds of code meet in a dataflow: DataFrame functions (run by the JVM), Arrow functions and stateful
operators (run by Python tasks). A *stage* is one Python task per partition:

- a *front* reads a frame (a source, or rows an earlier stage kept, through DataFrame functions) and sends its rows on;
- a *stateful* stage receives blobs and sends on what its operator emits.

What a stage emits goes down a tree of Arrow functions to operators (through an exchange) and, where a sink
or a DataFrame function
comes next, into an outbox: one durable Arrow file per task, which the commit names. So a sink never makes an
operator run
again, and what it publishes after a crash is what was committed.

Arrow functions always run inside a stage. A DataFrame function joins the frame of what comes next, unless an
Arrow function or an
operator comes next or several nodes do: then its rows are the rows of a front. A sink directly behind frames needs no
Python at all: it is written straight from its frame. A source that several DataFrame functions read is read by each.
A front reads the columns that a function, operator or sink looks at (`pruning`).
Union has no stage: a consumer of a union reads each of its inputs, as often as it is one. Rows go different *ways*
through unions and Arrow functions to an operator; the number of the way is the input they arrive at, so that an
operator which depends on the order of rows sees those of one input of a union behind those of the input before. What
a sink reads lies all in frames or all in outboxes: where a union mixes the two, its frames become fronts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from rechannel.dataflow.graph import (
    Dataflow,
    DeadLetters,
    Late,
    MapBatches,
    Node,
    Sink,
    Source,
    Stateful,
    Transform,
    Union,
)
from rechannel.dataflow.timing import time_inputs, time_names
from rechannel.engine.program.pruning import pruned
from rechannel.errors import DataflowError
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.kernels.protocol.program import DEAD, LATE, Branch, Consumer
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.model.eventtime import TimeInput
from rechannel.sinks.outlets import NoopOutlet


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
    """Rows of several frames, one behind the other."""

    children: tuple[Frame, ...]


KEPT = ".kept"
"""Ends the name of the stage that sends on what a materialised DataFrame function left in its outbox."""

Frame = SourceFrame | SinkBufferFrame | ApplyFrame | UnionFrame


def leaves(frame: Frame) -> Iterator[SourceFrame | SinkBufferFrame]:
    """Where the rows of a frame come from."""
    if isinstance(frame, SourceFrame | SinkBufferFrame):
        yield frame
    elif isinstance(frame, UnionFrame):
        for child in frame.children:
            yield from leaves(child)
    else:
        yield from leaves(frame.child)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One operator as it runs.

    name: the node's name. frame: what a front reads; None for a stateful stage. root: what becomes of its rows.
    producers: names of the stages whose exchanges a stateful stage reads, by input number.
    after: stages whose outboxes it reads. times: where a stateful stage has its event time from. origins: inputs of
    time of the rows at the root.
    """

    name: str
    root: Branch
    frame: Frame | None = None
    logic: StatefulLogic | None = None
    producers: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    times: tuple[TimeInput, ...] = ()
    origins: tuple[str, ...] = ()
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
        """Whether reports leave through a partition of their own: later stages of the timestep wait for them."""
        return bool(self.consumers) and (self.logic is not None or bool(self.kept))

    @property
    def needs(self) -> tuple[str, ...]:
        """Stages that must have run in the same timestep."""
        return tuple(dict.fromkeys((*self.producers, *self.after)))

    @property
    def kept(self) -> tuple[str, ...]:
        """Nodes whose rows this stage keeps in outboxes."""
        return tuple(b.node for b in self.root.walk() if b.outbox)


@dataclass(frozen=True, kw_only=True)
class SinkPlan:
    """A sink and the frame it writes. direct: written from sources, before the commit, without any stage."""

    sink: Sink
    frame: Frame
    schema: pa.Schema
    direct: bool

    def __post_init__(self) -> None:
        """Check that what a sink may not be able to write is kept somewhere."""
        if self.direct and self.sink.failure.then != "stop":
            msg = (
                f"sink {self.sink.name!r} ({self.sink.where}) is written straight from a source, before its timestep is"
                f" committed, so its rows are kept nowhere and on_failure({self.sink.failure.then!r}) is not possible:"
                " put an operator between source and sink, such as select(...) of the columns"
            )
            raise DataflowError(msg)


@dataclass(frozen=True, kw_only=True)
class PhysicalPlan:
    """All stages in an order in which producers come first, and all sinks."""

    stages: tuple[Stage, ...]
    sinks: tuple[SinkPlan, ...]
    sources: tuple[Source, ...]
    dataflow: Dataflow

    def stage(self, name: str) -> Stage:
        """The stage of a name."""
        return next(stage for stage in self.stages if stage.name == name)

    def keeper(self, node: str) -> str:
        """Name of the stages that keep a node's rows in an outbox."""
        return next(stage.name for stage in self.stages if node in stage.kept)

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
    # Rows of a stage that no sink wants are dropped where they are made; those of a frame have to be made first.
    sinks = [sink for sink in sinks if sink.direct or not isinstance(sink.sink.outlet, NoopOutlet)]
    sources = tuple(node for node in dataflow.nodes if isinstance(node, Source))
    return PhysicalPlan(
        stages=tuple(stages), sinks=tuple(sinks), sources=sources, dataflow=dataflow
    )


Way = tuple[tuple[int, int], ...]
"""How rows get from the root of a stage to a node: (id of a node, number of its input) for every node they pass."""


@dataclass
class _Compiler:
    dataflow: Dataflow
    schemas: Mapping[str, pa.Schema]
    logics: Mapping[str, StatefulLogic]
    fronts: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Find what becomes a front only because a sink reads outboxes beside it."""
        found = True
        while found:
            mixed = {id(node) for node in self.dataflow.nodes for node in self._mixed(node)}
            found = bool(mixed - self.fronts)
            self.fronts |= mixed

    def _mixed(self, sink: Node) -> list[Node]:
        """What a sink reads from sources, if it reads outboxes as well."""
        if not isinstance(sink, Sink) or isinstance(sink.outlet, NoopOutlet):
            return []
        read = [(node, list(leaves(self.frame(node, sink)))) for node in _inputs(sink.upstream)]
        sourced = [[isinstance(leaf, SourceFrame) for leaf in found] for _, found in read]
        if all(map(all, sourced)):
            return []
        return [node for (node, _), some in zip(read, sourced, strict=True) if any(some)]

    def users(self, node: Node) -> list[Node]:
        """Consumers of a node, looking through unions."""
        out: list[Node] = []
        for user in self.dataflow.consumers(node):
            out.extend(self.users(user) if isinstance(user, Union) else [user])
        return out

    def is_root(self, node: Node) -> bool:
        """Whether a node's rows are the rows of a stage."""
        if id(node) in self.fronts:
            return True
        users = self.users(node)
        needs_python = any(isinstance(user, Stateful | MapBatches) for user in users)
        if isinstance(node, Transform):
            return needs_python or len(users) > 1 or node.materialise
        return isinstance(node, Stateful) or (isinstance(node, Source) and needs_python)

    def frame(self, node: Node, user: Node) -> Frame:
        """Rows of a node as a frame for one of its users."""
        if isinstance(node, Union):
            return UnionFrame(children=tuple(self.frame(child, user) for child in node.inputs))
        if isinstance(node, Source) and not (isinstance(user, Sink) and self.is_root(node)):
            return SourceFrame(source=node)
        if isinstance(node, Transform) and not self.is_root(node):
            return self.apply(node)
        return SinkBufferFrame(node=node.name, schema=self.schemas[node.name])

    def apply(self, node: Transform) -> ApplyFrame:
        """A DataFrame function over the frame of its input."""
        return ApplyFrame(transform=node, child=self.frame(node.upstream, node))

    def ways(self, node: Node) -> list[Way]:
        """Every way from the roots of stages to a node, in the order of the unions on it."""
        if isinstance(node, Union):
            inputs = enumerate(node.inputs)
            return [(*way, (id(node), i)) for i, child in inputs for way in self.ways(child)]
        before = self.ways(node.upstream) if isinstance(node, MapBatches) else [()]
        return [(*way, (id(node), 0)) for way in before]

    def onward(self, way: Way, node: Node) -> Iterator[tuple[int, Way]]:
        """Ways to a node that go on from a way through nothing but unions, with their numbers."""
        unions = {id(node) for node in self.dataflow.nodes if isinstance(node, Union)}
        for number, longer in enumerate(self.ways(node)):
            rest = longer[len(way) :]
            if longer[: len(way)] == way and all(passed in unions for passed, _ in rest):
                yield number, longer

    def branch(self, node: Node, way: Way) -> Branch:
        """What becomes of a node's rows inside its stage, when they have come by a way."""
        users = self.users(node)
        keep = any(
            (isinstance(user, Transform) and not isinstance(node, Source))
            or (isinstance(user, Sink) and not isinstance(user.outlet, NoopOutlet))
            for user in users
        )
        return Branch(
            node=node.name,
            schema=self.schemas[node.name],
            function=node.function if isinstance(node, MapBatches) else None,
            side=_side(node),
            consumers=tuple(self._consumers(way)),
            outbox=keep,
            branches=tuple(self._branches(way)),
        )

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
        """Stages inside which a node's rows are made."""
        if isinstance(node, Union | MapBatches):
            return [name for up in node.upstreams for name in self.roots(up)]
        if isinstance(node, Transform) and node.materialise:
            return [node.name + KEPT]
        return [node.name]

    def stages(self, node: Node) -> list[Stage]:
        """The stage of a root; two for a function whose result is materialised: one keeps it, one sends it on."""
        stage = self.stage(node)
        if not (isinstance(node, Transform) and node.materialise):
            return [stage if stage.frame is None else replace(stage, root=pruned(stage.root))]
        keeping = Branch(node=node.name, schema=stage.root.schema, outbox=True)
        out = [replace(stage, root=keeping)]
        if stage.consumers or stage.root.branches:
            kept = SinkBufferFrame(node=node.name, schema=stage.root.schema)
            sending = pruned(replace(stage.root, outbox=False))
            name = node.name + KEPT
            out.append(replace(stage, name=name, root=sending, frame=kept, after=(node.name,)))
        return out

    def stage(self, node: Node) -> Stage:
        """The stage of a root."""
        root = self.branch(node, ((id(node), 0),))
        if isinstance(node, Stateful):
            producers = tuple(dict.fromkeys(self.roots(node.upstream)))
            logic = self.logics[node.name]
            return Stage(
                name=node.name,
                root=root,
                logic=logic,
                producers=producers,
                times=time_inputs(node),
                origins=time_names(node),
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
        """What a sink writes."""
        frame = self.frame(node.upstream, node)
        return SinkPlan(
            sink=node,
            frame=frame,
            schema=self.schemas[node.upstream.name],
            direct=all(isinstance(leaf, SourceFrame) for leaf in leaves(frame)),
        )


def _side(node: Node) -> str:
    """Which rows a node has that are not made of its input's; "" = those that are."""
    if isinstance(node, DeadLetters):
        return DEAD
    return LATE if isinstance(node, Late) else ""


def _inputs(node: Node) -> list[Node]:
    """What a union joins, with unions inside unions taken apart; a node itself otherwise."""
    if isinstance(node, Union):
        return [leaf for child in node.inputs for leaf in _inputs(child)]
    return [node]
