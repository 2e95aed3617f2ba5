"""In what order a timestep does its work, as the driver and the scheduler do it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rechannel.engine.program.physical import PhysicalPlan


def order_of(plan: PhysicalPlan) -> Iterator[tuple[str, str]]:
    """Yield the phases of a timestep, and the stages that run beside each other in each turn."""
    sources = ", ".join(source.name for source in plan.sources)
    yield "1 plan", f"how far {sources} can be read; the range is journalled as the intent"
    for names in turns_of(plan):
        yield "2 run", f"{', '.join(names)}{' beside each other' if len(names) > 1 else ''}"
    direct = [sink.sink.name for sink in plan.sinks if sink.direct]
    if direct:
        yield "2 run", f"{', '.join(direct)}: written, and not shown before the commit"
    yield "3 commit", "offsets, state and sink buffers, in one entry of the journal"
    if plan.sinks:
        yield "4 publish", ", ".join(sink.sink.name for sink in plan.sinks)


def turns_of(plan: PhysicalPlan) -> list[list[str]]:
    """Return the names of stages, by turn: a stage runs once all stages that it needs have run."""
    turn: dict[str, int] = {}
    for stage in plan.stages:  # producers first
        turn[stage.name] = 1 + max((turn[name] for name in stage.needs), default=-1)
    return [
        [name for name, at in turn.items() if at == number]
        for number in range(max(turn.values(), default=-1) + 1)
    ]
