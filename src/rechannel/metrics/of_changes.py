"""Metrics of reconfigurations that are open, and of controllers. Pure. Controllers count since they were installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rechannel.metrics.metric import Kind, Labels, Metric, of_each, of_job
from rechannel.metrics.seen import OpenMoves, Seen
from rechannel.monitoring import ControllerStatus


def _moves(seen: Seen) -> Mapping[str, OpenMoves]:
    return {one.id: one for one in seen.moves}


def _controllers(seen: Seen) -> Mapping[str, ControllerStatus]:
    return {one.name: one for one in seen.controllers}


def _bins(name: str, words: str, figure: Callable[[OpenMoves], float]) -> Metric:
    return Metric(
        name=f"rechannel.reconfiguration.bins.{name}",
        prometheus=f"rechannel_reconfiguration_bins_{name}",
        kind=Kind.GAUGE,
        unit="{bin}",
        words=words,
        labels=("id",),
        read=of_each(_moves, figure),
    )


def _controller(
    name: str, kind: Kind, unit: str, words: str, figure: Callable[[ControllerStatus], float]
) -> Metric:
    return Metric(
        name=f"rechannel.controller.{name}",
        prometheus=f"rechannel_controller_{name}",
        kind=kind,
        unit=unit,
        words=words,
        labels=("controller",),
        read=of_each(_controllers, figure),
    )


def _own(seen: Seen) -> Iterator[tuple[Labels, float]]:
    for status in seen.controllers:
        for name, values in status.metrics.items():
            for operator, value in values.items():
                yield (status.name, name, operator), value


METRICS = (
    Metric(
        name="rechannel.reconfigurations.open",
        prometheus="rechannel_reconfigurations_open",
        kind=Kind.GAUGE,
        unit="{reconfiguration}",
        words="Reconfigurations that are not over.",
        read=of_job(lambda seen: len(seen.moves)),
    ),
    _bins("moved", "Bins that an open reconfiguration has moved.", lambda each: each.moved),
    _bins(
        "left",
        "Bins that it has still to move, once its steps are planned.",
        lambda each: each.left,
    ),
    _controller(
        "operations",
        Kind.COUNTER,
        "{operation}",
        "Control operations that it has sent.",
        lambda status: status.operations,
    ),
    _controller(
        "requests",
        Kind.COUNTER,
        "{request}",
        "Changes that it has requested.",
        lambda status: status.requests,
    ),
    _controller(
        "failures",
        Kind.COUNTER,
        "{failure}",
        "Callbacks of it that have failed.",
        lambda status: status.failed,
    ),
    _controller(
        "active",
        Kind.GAUGE,
        "1",
        "1 while it may begin operations; 0 while it is paused, suspended or absent.",
        lambda status: int(status.running and status.paused is None),
    ),
    _controller(
        "suspended",
        Kind.GAUGE,
        "1",
        "1 while it is paused because its callbacks have failed.",
        lambda status: int(status.suspended),
    ),
    Metric(
        name="rechannel.controller.value",
        prometheus="rechannel_controller_value",
        kind=Kind.GAUGE,
        words="What the controller shows with control.metric.",
        labels=("controller", "name", "operator"),
        read=_own,
    ),
)
