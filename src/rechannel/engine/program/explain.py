"""The physical plan as text: `job.explain()`. Pure.

One block per stage, producers first, then one per sink, then one that says in what order a timestep does its work. A
*source stage* reads a frame and sends its rows on; a *stage* with an operator receives rows through the exchange, keeps
state and sends on what it emits. Inside a stage, rows go down a tree of Arrow functions; an arrow marks where they
leave it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from rechannel.dataflow.graph.nodes import Dataflow, Stateful
from rechannel.dataflow.pictures.captions import caption
from rechannel.engine.program.changeable import OF_SINK, changes_of, changes_of_job
from rechannel.engine.program.order import order_of
from rechannel.engine.program.physical import (
    ApplyFrame,
    Frame,
    PhysicalPlan,
    SinkBufferFrame,
    SinkPlan,
    SourceFrame,
    Stage,
    UnionFrame,
)
from rechannel.engine.program.standing import Line, Standing
from rechannel.kernels.protocol.program import Branch, Consumer
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.model.configuration import Combine, Configuration, OperatorConfiguration
from rechannel.model.ddl import columns_text

WIDTH = 100
"""Captions of nodes are shortened to this."""


def explain(
    plan: PhysicalPlan,
    configuration: Configuration,
    *,
    on_spark: bool,
    standing: Standing | None = None,
    inline: str = "",
) -> str:
    """Return the stages with their tasks, exchanges, state and columns, the sinks, and the order of a timestep.

    standing: of a running job; None = it does not run. inline: which timesteps the driver runs itself; "" = none.
    """
    shown = _Shown(plan, configuration, on_spark, standing)
    blocks = [
        [_head(plan, configuration)],
        *(shown.stage(stage) for stage in plan.stages),
        *(shown.sink(sink) for sink in plan.sinks),
        [
            "One timestep, in order",
            *_aligned(order_of(plan)),
            *(_aligned([("inline", f"the driver runs {inline}")]) if inline else ()),
            *_aligned([("changes", ", ".join(changes_of_job(on_spark=on_spark)))]),
        ],
    ]
    return "\n\n".join("\n".join(block) for block in blocks)


def _head(plan: PhysicalPlan, configuration: Configuration) -> str:
    stages, sinks = len(plan.stages), len(plan.sinks)
    every = f"every {configuration.interval_ms:,} ms" if configuration.interval_ms else "at once"
    return (
        f"{stages} {_plural('stage', stages)}, {sinks} {_plural('sink', sinks)};"
        f" configuration {configuration.version}: a timestep starts {every},"
        f" {configuration.in_flight} in flight"
    )


@dataclass(frozen=True, slots=True)
class _Shown:
    plan: PhysicalPlan
    configuration: Configuration
    on_spark: bool
    standing: Standing | None

    def stage(self, stage: Stage) -> list[str]:
        settings = self.configuration.operators.get(stage.name)
        title, lines = self._source(stage) if stage.frame is not None else self._operator(stage)
        lines += _leaves(stage.root, self.plan.dataflow, self.configuration)
        if stage.frame is None:
            lines += _places(settings, on_spark=self.on_spark)
        lines += self._now(stage)
        able = changes_of(stage, self.plan, settings, on_spark=self.on_spark)
        lines.append(("changes", ", ".join(able)))
        return [title + _size(stage, settings), *_aligned(lines)]

    def sink(self, plan: SinkPlan) -> list[str]:
        sink = plan.sink
        when = "before the commit" if plan.direct else "after the commit"
        lines = [("writes", f"{text}, {when}") for text in _frame(plan.frame)]
        lines.append(("columns", columns_text(plan.schema)))
        lines.append(("guarantee", sink.outlet.guarantee))
        if sink.failure.then != "stop":
            lines.append(("on failure", sink.failure.then))
        if self.standing is not None:
            lines += self.standing.sink(sink.name)
        lines.append(("changes", ", ".join(OF_SINK)))
        return [f"Sink {sink.name}: {sink.outlet.describe()}", *_aligned(lines)]

    def _source(self, stage: Stage) -> tuple[str, list[Line]]:
        frame = stage.frame
        lines = [] if frame is None else [("reads", text) for text in _frame(frame)]
        lines.append(("columns", _columns_read(stage, self.plan)))
        return f"Source stage {stage.name}", lines

    def _operator(self, stage: Stage) -> tuple[str, list[Line]]:
        node = self.plan.dataflow.by_name[stage.name]
        lines = [("receives", f"rows of {', '.join(stage.producers)}")]
        lines += [
            ("reads", f"the table of {operator}, as {name!r}")
            for name, operator in stage.broadcasts.items()
        ]
        if stage.can is not None:
            lines += _state(stage, stage.can)
        return f"Stage {stage.name}: {caption(node, {}, WIDTH)}", lines

    def _now(self, stage: Stage) -> Iterator[Line]:
        if self.standing is None:
            return
        if stage.frame is None:
            yield from self.standing.operator(stage.name)
        else:
            yield from self.standing.source(stage.name)


def _places(settings: OperatorConfiguration | None, *, on_spark: bool) -> Iterator[Line]:
    """Where tasks run, and what each of them needs."""
    if not on_spark:
        yield "runs in", "this process"
    if not on_spark or settings is None:
        return
    places = [f"task {task} on executor {at}" for task, at in sorted(settings.placement.items())]
    others = len(settings.placement) < settings.tasks
    free = ["the executor that ran it last, or any" if not places else "others on any"]
    yield "runs on", ", ".join([*places, *(free if others else ())])
    needs = settings.resources
    if needs is not None:
        memory = "" if needs.memory_mb is None else f", executors of {needs.memory_mb:,} MiB"
        amounts = "".join(f", {amount:g} {name}" for name, amount in needs.amounts.items())
        cpus = f"{needs.cpus} {_plural('CPU', needs.cpus)}"
        yield "each task", f"{cpus}{amounts}{memory}"


def _size(stage: Stage, settings: OperatorConfiguration | None) -> str:
    """Tasks and bins; a source has no more tasks than its input has splits."""
    if settings is None:
        return " (one task per split)"
    tasks = f"{settings.tasks} {_plural('task', settings.tasks)}"
    if stage.frame is not None:
        return f" (at most {tasks})"
    if settings.routing is None:
        return f" ({tasks})"
    spreads = [f"one over {len(spread.tasks)} tasks" for spread in settings.routing.spreads]
    return f" ({', '.join([tasks, f'{settings.routing.bins} bins', *spreads])})"


def _state(stage: Stage, can: Capabilities) -> Iterator[tuple[str, str]]:
    logic = can.logic
    kept = columns_text(logic.state_schema) or "nothing but the key"
    yield "state", f"{columns_text(logic.key_schema)} → {kept}"
    if not can.needs_lookup:
        yield "", "written without a lookup"
    if stage.times:
        names = ", ".join(time.name for time in stage.times)
        yield "event time", f"watermarks of {names}"
    yield "emits", columns_text(logic.output_schema)


def _columns_read(stage: Stage, plan: PhysicalPlan) -> str:
    """Columns that the stage needs, and how many there are."""
    needed = stage.root.schema.names
    frame = stage.frame
    whole: pa.Schema | None = None
    if isinstance(frame, SourceFrame):
        whole = frame.source.connector.schema
    total = len(needed) if whole is None else len(whole)
    rest = "" if len(needed) == total else f" ({len(needed)} of {total})"
    return f"{', '.join(needed)}{rest}"


def _leaves(
    branch: Branch, dataflow: Dataflow, configuration: Configuration, depth: int = 0
) -> Iterator[tuple[str, str]]:
    """What happens to rows inside a stage, and where they leave it."""
    indent = "  " * depth
    for consumer in branch.consumers:
        yield "exchange", f"{indent}→ {_exchange(consumer, dataflow, configuration)}"
    if branch.sink_buffer:
        yield "sink buffer", f"{indent}→ rows of {branch.node}"
    for below in branch.branches:
        node = dataflow.by_name.get(below.node)
        what = "" if node is None else f": {caption(node, {}, WIDTH)}"
        yield "runs", f"{indent}{below.node}{what}"
        yield from _leaves(below, dataflow, configuration, depth + 1)


def _exchange(consumer: Consumer, dataflow: Dataflow, configuration: Configuration) -> str:
    node = dataflow.by_name.get(consumer.operator)
    keys = node.keys if isinstance(node, Stateful) else consumer.logic.key_schema.names
    by = f" by {', '.join(keys)}" if keys else ""
    return f"{consumer.operator}{by}; {_combined(consumer, configuration)}"


def _combined(consumer: Consumer, configuration: Configuration) -> str:
    """Whether rows become partial states before the exchange, and which columns travel."""
    settings = configuration.operators.get(consumer.operator)
    combined = consumer.can.combinable and (settings is None or settings.combines)
    columns = columns_text(consumer.can.wire_schema(combined=combined)) or "keys alone"
    if not consumer.can.combinable:
        return f"rows: {columns}"
    auto = settings is None or settings.combine is Combine.AUTO
    how = "combined" if combined else "not combined"
    return f"{how}{' (auto)' if auto else ''}: {columns}"


def _frame(frame: Frame) -> Iterator[str]:
    """Where rows come from, one line per origin, with the DataFrame functions over it."""
    if isinstance(frame, SourceFrame):
        yield f"{frame.source.name} ({frame.source.connector.describe()})"
    elif isinstance(frame, SinkBufferFrame):
        yield f"sink buffer of {frame.node}"
    elif isinstance(frame, UnionFrame):
        for child in frame.children:
            yield from _frame(child)
    elif isinstance(frame, ApplyFrame):
        for text in _frame(frame.child):
            yield f"{text} → {frame.transform.name}: {caption(frame.transform, {}, WIDTH)}"


def _aligned(lines: Iterable[tuple[str, str]]) -> list[str]:
    """Lines under a title: a word, and what it is about; a word is not repeated."""
    out, before = [], ""
    for word, text in lines:
        out.append(f"  {'' if word == before else word:<12} {text}".rstrip())
        before = word or before
    return out


def _plural(word: str, number: int) -> str:
    return word if number == 1 else f"{word}s"
