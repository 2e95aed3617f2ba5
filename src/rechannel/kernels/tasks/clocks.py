"""The times that a stateful task goes by, and those that it passes on. All tasks of a timestep compute the same."""

from __future__ import annotations

from dataclasses import replace

from rechannel.kernels.protocol.program import StageProgram, StageStep
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.kernels.shuffle.watermarks import Latest
from rechannel.model.eventtime import ENDED, NEVER, Beat, Clock, Times, advance


def times_after(program: StageProgram, step: StageStep, seen: Latest) -> Times:
    """Return the event time after a timestep, and where an operator stands that emits at an interval."""
    if not program.times:
        return step.times
    times = advance(step.times, program.times, seen, step.stream_ms)
    early = program.can.early_ms
    if early is None:
        return times
    known = step.times.beat
    beat = Beat(stream_ms=step.stream_ms)
    if known is not None:
        beat = known.after(step.timestep, step.stream_ms, early)
    return replace(times, beat=beat)


def clock_of(program: StageProgram, step: StageStep, times: Times) -> Clock:
    """Return a task's clock. times: after the timestep."""
    early, beat = program.can.early_ms, step.times.beat
    since = None
    if early is not None and beat is not None and beat.strikes(step.stream_ms, early):
        since = beat.shown
    return Clock(
        stream_ms=step.stream_ms,
        before=step.times.watermark,
        watermark=times.watermark,
        processing_before=step.times.processing(program.operator),
        processing=times.processing(program.operator),
        since=since,
    )


def handed_on(operator: str, can: Capabilities, watermark: int) -> dict[str, int]:
    """Return the event time for downstream operators, once it is known."""
    if watermark == NEVER:
        return {}
    return {operator: watermark - (0 if watermark == ENDED else can.lag_us)}
