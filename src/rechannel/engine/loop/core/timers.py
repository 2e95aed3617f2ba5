"""Whether a timestep without rows has something to do: rows of state whose time has come. Pure."""

from __future__ import annotations

from rechannel.engine.loop.core.state import Operators
from rechannel.engine.program.physical import PhysicalPlan, Stage
from rechannel.engine.program.steps import rowless
from rechannel.model.eventtime import Clock, Times


def timers_due(plan: PhysicalPlan, operators: Operators, stream_ms: int) -> bool:
    """Return whether anything waits for the time of a timestep, and it has come. Nothing is in flight.

    Processing time goes by it, and it shows of an input of event time that it holds no operator back any more.
    """
    passed = rowless(plan, operators.times, stream_ms)
    return any(
        _early(stage, operators, stream_ms)
        or _waits(stage, operators, passed, stream_ms)
        or _rings(stage, operators, stream_ms)
        for stage in plan.stages
        if stage.can is not None
    )


def _waits(stage: Stage, operators: Operators, passed: dict[str, int], stream_ms: int) -> bool:
    """Whether a row of state waits for the watermark that a timestep without rows would bring."""
    if stage.can is None or stage.name not in passed:
        return False
    before = operators.times.get(stage.name, Times()).watermark
    watermark = passed[stage.name]
    if watermark == before:
        return False
    due = stage.can.due_range(Clock(stream_ms=stream_ms, before=before, watermark=watermark))
    if due is None:
        return False
    after, until = due
    manifest = operators.manifests.get(stage.name)
    first = operators.first_timers.get(stage.name, {})
    waiting = manifest.waiting(after, until) if manifest else ()
    return any(first.get(segment, until) <= until for segment in waiting)


def _rings(stage: Stage, operators: Operators, stream_ms: int) -> bool:
    """Whether a timer of processing time is due, of an operator whose timers go by event time as well."""
    if stage.can is None or not any(each.beside for each in stage.times):
        return False
    before = operators.times.get(stage.name, Times()).processing(stage.name)
    clock = Clock(stream_ms=stream_ms, processing_before=before, processing=stream_ms * 1_000)
    due = stage.can.processing_range(clock)
    if due is None:
        return False
    after, until = due
    manifest = operators.manifests.get(stage.name)
    first = operators.first_processing.get(stage.name, {})
    ringing = manifest.ringing(after, until) if manifest else ()
    return any(first.get(segment, until) <= until for segment in ringing)


def _early(stage: Stage, operators: Operators, stream_ms: int) -> bool:
    """Whether it is time to emit early what has changed, and something has."""
    times = operators.times.get(stage.name, Times())
    every = None if stage.can is None else stage.can.early_ms
    if every is None or times.beat is None or not times.beat.strikes(stream_ms, every):
        return False
    manifest = operators.manifests.get(stage.name)
    return manifest is not None and manifest.changed_since(times.beat.shown, times.watermark)
