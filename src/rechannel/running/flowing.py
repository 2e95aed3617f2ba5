"""What is drawn of a dataflow: its nodes, what went between them, and what took the time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any

from rechannel.errors import SetUpError
from rechannel.monitoring import CriticalPath, DataflowNode, Flow
from rechannel.operators.window.logic import START
from rechannel.profiling.api import shares_of
from rechannel.profiling.job.shares import CriticalShares
from rechannel.telemetry.events import Event
from rechannel.telemetry.recent_tasks import TimestepTasks

MOST_TIMESTEPS = 20
"""Timesteps that a flow is of, at most."""

NO_TIMESTEP = "no whole timestep has been measured yet"


def nodes_of(record: Mapping[str, Any]) -> tuple[DataflowNode, ...]:
    """Return the nodes of a dataflow, upstream first. record: what the journal keeps of its program; may be empty."""
    known = record.get("identity", {})
    # The journal's own order is that of names.
    order = TopologicalSorter({name: facts["upstreams"] for name, facts in known.items()})
    return tuple(_node(name, known[name]) for name in order.static_order())


def _node(name: str, facts: Mapping[str, Any]) -> DataflowNode:
    return DataflowNode(
        name=name,
        kind=facts["kind"],
        upstreams=tuple(facts["upstreams"]),
        keys=tuple(key for key in facts.get("keys", ()) if key != START),
    )


def flow_of(tasks: Sequence[TimestepTasks], events: Iterable[Event]) -> Flow:
    """Return what the latest timesteps did. tasks, events: of them, oldest first."""
    latest = tasks[-MOST_TIMESTEPS:]
    critical, unknown = _critical(events)
    return Flow(
        first=latest[0].timestep if latest else None,
        last=latest[-1].timestep if latest else None,
        seconds=_seconds(latest),
        rows=_rows(latest),
        critical=critical,
        unknown=unknown,
    )


def _seconds(tasks: Sequence[TimestepTasks]) -> float:
    began = [each.began_ms for one in tasks for each in one.operators.values()]
    ended = [each.ended_ms for one in tasks for each in one.operators.values()]
    return round(max(0.0, max(ended) - min(began)) / 1e3, 3) if began else 0.0


def _rows(tasks: Sequence[TimestepTasks]) -> dict[str, dict[str, int]]:
    made: dict[str, dict[str, int]] = {}
    for one in tasks:
        for (sender, receiver), rows in zip(one.edges, one.sent, strict=True):
            to = made.setdefault(sender, {})
            to[receiver] = to.get(receiver, 0) + rows
    return made


def _critical(events: Iterable[Event]) -> tuple[CriticalPath | None, str]:
    try:
        shares = shares_of(events, most=MOST_TIMESTEPS)
    except SetUpError as error:
        return None, str(error)
    return (None, NO_TIMESTEP) if shares is None else (_path(shares), "")


def _path(shares: CriticalShares) -> CriticalPath:
    return CriticalPath(
        first=shares.first,
        last=shares.last,
        timesteps=shares.timesteps,
        mean_ms=round(shares.mean_ms, 3),
        kinds={name: round(share, 4) for name, share in shares.kinds.items()},
        operators={name: round(share, 4) for name, share in shares.operators.items()},
        tasks={name: max(of, key=of.__getitem__) for name, of in shares.tasks.items() if of},
    )
