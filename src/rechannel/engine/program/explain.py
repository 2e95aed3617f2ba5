"""The physical plan as text: `job.explain()`. Pure.

One block per stage, producers first, then one per sink. A *source stage* reads a frame and sends its rows on; a
*stage* with an operator receives rows through the exchange, keeps state and sends on what it emits. Inside a stage,
rows go down a tree of Arrow functions; an arrow marks where they leave it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from rechannel.dataflow.graph.nodes import Dataflow, Stateful
from rechannel.dataflow.pictures.captions import caption
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
from rechannel.kernels.protocol.program import Branch, Consumer
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.model.configuration import Combine, Configuration, OperatorConfiguration
from rechannel.model.ddl import columns_text

WIDTH = 100
"""Captions of nodes are shortened to this."""


def explain(plan: PhysicalPlan, configuration: Configuration) -> str:
    """Return the stages with their tasks, exchanges, state and the columns that they read, and the sinks."""
    blocks = [
        [_head(plan, configuration)],
        *(_stage(stage, plan, configuration) for stage in plan.stages),
        *(_sink(sink) for sink in plan.sinks),
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


def _stage(stage: Stage, plan: PhysicalPlan, configuration: Configuration) -> list[str]:
    settings = configuration.operators.get(stage.name)
    lines: list[tuple[str, str]] = []
    if stage.frame is not None:
        title = f"Source stage {stage.name}"
        lines += [("reads", text) for text in _frame(stage.frame)]
        lines.append(("columns", _columns_read(stage, plan)))
    else:
        node = plan.dataflow.by_name[stage.name]
        title = f"Stage {stage.name}: {caption(node, {}, WIDTH)}"
        lines.append(("receives", f"rows of {', '.join(stage.producers)}"))
        lines += [
            ("reads", f"the table of {operator}, as {name!r}")
            for name, operator in stage.broadcasts.items()
        ]
    if stage.logic is not None:
        lines += _state(stage, Capabilities(stage.logic))
    lines += _leaves(stage.root, plan.dataflow, configuration)
    return [title + _size(stage, settings), *_aligned(lines)]


def _size(stage: Stage, settings: OperatorConfiguration | None) -> str:
    """Tasks and bins; a source has no more tasks than its input has splits."""
    if settings is None or stage.frame is not None:
        return " (one task per split)"
    tasks = f"{settings.tasks} {_plural('task', settings.tasks)}"
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


def _sink(plan: SinkPlan) -> list[str]:
    sink = plan.sink
    when = "before the commit" if plan.direct else "after the commit"
    lines = [("writes", f"{text}, {when}") for text in _frame(plan.frame)]
    lines.append(("columns", columns_text(plan.schema)))
    if sink.failure.then != "stop":
        lines.append(("on failure", sink.failure.then))
    return [f"Sink {sink.name}: {sink.outlet.describe()}", *_aligned(lines)]


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
