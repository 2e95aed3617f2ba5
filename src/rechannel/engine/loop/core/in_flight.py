"""What the reports of a unit make of its timestep and of its operator's state. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from rechannel.engine.loop.core.schedule import Unit
from rechannel.engine.loop.core.state import InFlight, LoopState, Operators
from rechannel.engine.program.steps import (
    stage_step,
    timed,
    times_of,
    with_joint_times,
)
from rechannel.errors import TimestepError
from rechannel.kernels.protocol.program import BroadcastState, StageStep
from rechannel.kernels.tasks.unit_report import UnitReport, latest
from rechannel.model.eventtime import Clock, Times
from rechannel.state.manifest import Manifest


def step_of(state: LoopState, unit: Unit) -> StageStep:
    """Return what the tasks of a unit receive."""
    name, number = unit
    flight, stage = state.in_flight[number], state.plan.stage(name)
    step = stage_step(
        state.plan,
        stage,
        flight.timestep.cut_by,
        timestep=number,
        stream_ms=flight.timestep.stream_ms,
        manifest=state.operators.manifests.get(name, Manifest()),
        policy=state.rules.merging,
        rewrite=flight.rewrite.get(name),
    )
    times = state.operators.times.get(name, Times())
    step = timed(step, stage, times, flight.seen, state.rules.task_bytes)
    controls = flight.timestep.controls
    step = dataclasses.replace(step, controls=controls) if controls else step
    read = {operator: flight.broadcasts[operator] for operator in stage.broadcasts.values()}
    return dataclasses.replace(step, broadcasts=read) if read else step


def folded(state: LoopState, unit: Unit, reports: Sequence[UnitReport]) -> LoopState:
    """Return the state after a unit has come back with its reports. Raises TimestepError where some are missing."""
    name, number = unit
    flight = state.in_flight[number]
    flight = replace(
        flight,
        reports=(*flight.reports, *reports),
        seen=latest([flight.seen, *(each.event_times for each in reports)]),
    )
    operators = state.operators
    if state.plan.stage(name).logic is not None:
        flight, operators = _applied(flight, operators, name, reports)
    if name in state.plan.broadcast:
        # Later timesteps of the operator may be done before this one's readers begin.
        table = _broadcast(flight, operators, name)
        flight = replace(flight, broadcasts={**flight.broadcasts, name: table})
    return replace(
        state,
        schedule=state.schedule.finish(unit),
        operators=operators,
        in_flight={**state.in_flight, number: flight},
    )


def _broadcast(flight: InFlight, operators: Operators, name: str) -> BroadcastState:
    """Return the state that an operator has just reached, for those who read its table in this timestep."""
    watermark = operators.times.get(name, Times()).watermark
    now = flight.timestep.stream_ms
    return BroadcastState(
        runs=operators.manifests[name].state,
        clock=Clock(stream_ms=now, before=watermark, watermark=watermark),
    )


def _applied(
    flight: InFlight, operators: Operators, name: str, reports: Sequence[UnitReport]
) -> tuple[InFlight, Operators]:
    """Apply the edit of an operator's manifest, and take its event time."""
    operator = flight.timestep.cut_by.operators[name]
    report = next((report for report in reports if report.operator == name), None)
    expected, arrived = operator.tasks, 0 if report is None else report.tasks
    if report is None or arrived != expected:
        msg = (
            f"operator {name!r}, timestep {flight.timestep.number}: {arrived} of {expected} tasks"
            " reported"
        )
        raise TimestepError(msg)
    edit = report.edit
    if operator.routing is not None and operator.routing.spreads:
        edit = with_joint_times(edit, operator.routing.spreads)
    manifest = operators.manifests.get(name, Manifest()).apply(edit)
    times = times_of(report)
    own = {} if times is None else {name: times}
    operators = Operators(
        manifests={**operators.manifests, name: manifest},
        times={**operators.times, **own},
        first_timers={**operators.first_timers, name: report.first_timers},
        first_processing={**operators.first_processing, name: report.first_processing},
    )
    flight = replace(flight, edits={**flight.edits, name: edit}, times={**flight.times, **own})
    return flight, operators


def unread(flight: InFlight) -> float:
    """Return what a timestep has left unread over what it has read, of the source with the largest share."""
    rows: dict[str, int] = {}
    for report in flight.reports:
        rows[report.operator] = rows.get(report.operator, 0) + report.rows_in
    shares = [
        left.rows / max(1, rows.get(name, 0))
        if left.rows is not None
        else (left.bytes or 0) / max(1, left.taken_bytes)
        for name, left in flight.backlogs.items()
    ]
    return max(shares, default=0.0)


def kept_of(reports: Iterable[UnitReport]) -> dict[str, list[str]]:
    """Return the files of sink buffers by node, in the order of their tasks."""
    out: dict[str, list[tuple[int, str]]] = {}
    for report in reports:
        for node, found in report.buffered.items():
            out.setdefault(node, []).extend(found)
    return {node: [key for _, key in sorted(files)] for node, files in out.items()}


def reporting(reports: Iterable[UnitReport]) -> tuple[str, ...]:
    """Return the operators that have reported.

    A source stage that runs with its first reader has not run yet; its reports come with the reader's.
    """
    return tuple(dict.fromkeys(report.operator for report in reports))
