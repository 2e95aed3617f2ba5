"""Requests and aborts, judged against the Configuration to come and refused before anything happens. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from rechannel.errors import RechannelError, RefusedError
from rechannel.model.codec import decode, encode
from rechannel.model.configuration import Configuration, OperatorConfiguration
from rechannel.model.text import iso_utc
from rechannel.reconfigure.changes.change import PROGRAM, Change
from rechannel.reconfigure.changes.together import parts_of, spelled_out
from rechannel.reconfigure.coordination import Coordination, Now, finished, meet
from rechannel.reconfigure.events import Event, Requested, Reversed
from rechannel.reconfigure.moment import EventMoment, bound
from rechannel.reconfigure.record import Phase, Record
from rechannel.reconfigure.steps import Route, Step, apply_steps, rewritten, route
from rechannel.reconfigure.strategies import AllAtOnce, Strategy, steps_of


@dataclass(frozen=True, kw_only=True)
class Request:
    """A change that is requested of a job. It has at most one moment; without one, it holds as soon as possible."""

    change: Change
    strategy: Strategy

    cause: str = "asked for"
    """Who or what requests it, in words."""

    at_timestep: int | None = None
    """The timestep from which it shall hold."""

    at_ms: int | None = None
    """The time of the stream from which it shall hold, Unix milliseconds."""

    at_event: EventMoment | None = None
    """The event time from which it shall hold."""

    steps: tuple[Step, ...] | None = None
    """Steps of a plan that was made earlier; None = they are planned when it begins."""

    supersede: bool = False
    """Whether it takes the place of open changes of the same operators."""

    spares: frozenset[str] = frozenset()
    """Ids of open changes whose place it does not take all the same."""

    origin: str = ""
    """Which request of which controller it is; "" = of none."""


def accept(state: Coordination, request: Request, now: Now) -> Requested:
    """The event of an accepted request. Raises RefusedError or UnknownOperatorError; nothing has happened then."""
    _check_when(request, now)
    change = spelled_out(request.change, now.configuration.operators)
    request = replace(request, change=change)
    wanted = request.at_event
    moment = None if wanted is None else bound(wanted, change.about(), now.event_times)
    gone: list[Record] = []
    if request.supersede:
        met = (r for r in state.open if meet(r.touches, request.change.touches()))
        gone = [record for record in met if record.id not in request.spares]
        for record in gone:
            _check_replaceable(record)
    others = tuple(record for record in state.records if record not in gone)
    waits = (request.at_timestep, request.at_ms, request.at_event) != (None, None, None)
    projected = projection(Coordination(serial=state.serial, records=others), now, scheduled=waits)
    target = request.change.resolved(projected, now.facts)
    if request.steps is not None:
        check_fixed(request.steps, projected, target)
    return Requested(
        id=f"r{state.serial + 1}",
        time_ms=now.time_ms,
        change=request.change.to_json(),
        strategy=request.strategy.to_json(),
        cause=request.cause,
        at_timestep=request.at_timestep,
        at_ms=request.at_ms,
        at_event=None if moment is None else encode(moment),
        steps=None if request.steps is None else tuple(map(encode, request.steps)),
        supersedes=tuple(record.id for record in gone),
        origin=request.origin,
    )


def refusal(state: Coordination, change: Change, now: Now) -> str:
    """Return why a change would be refused; "" if it would not."""
    try:
        accept(state, Request(change=change, strategy=AllAtOnce()), now)
    except RechannelError as error:
        return str(error)
    return ""


def projection(state: Coordination, now: Now, *, scheduled: bool = False) -> Configuration:
    """The Configuration after all open changes. Those that are no longer possible are left out.

    scheduled: whether those count that wait for a moment of their own; until then they keep nothing from happening.
    """
    configuration = now.configuration
    there = (record for record in state.open if scheduled or not record.scheduled)
    # A change with a moment may be under way before earlier requests.
    for record in sorted(there, key=lambda r: not r.under_way):
        with suppress(RechannelError, ValueError, KeyError):
            if record.under_way:
                configuration = apply_steps(configuration, record.left)
            else:
                configuration = record.change.resolved(configuration, now.facts)
    return configuration


def planned_route(configuration: Configuration, change: Change, now: Now) -> Route:
    """The way of a change from a Configuration. Raises RefusedError."""
    return route_to(change.resolved(configuration, now.facts), configuration, change, now)


def route_to(
    target: Configuration, configuration: Configuration, change: Change, now: Now
) -> Route:
    """The way of a change from a Configuration to its known target."""
    way = route(configuration, target, now.sizes)
    named = [part.rewrites for part in parts_of(change)]
    again = [name for name in named if name is not None and name in target.operators]
    moves = [m for name in dict.fromkeys(again) for m in rewritten(target, name, now.sizes)]
    return replace(way, moves=(*way.moves, *moves))


def planned_steps(record: Record, way: Route, now: Now) -> tuple[Step, ...]:
    """The steps of a record on its way: those of the plan that was requested, or as its strategy cuts them."""
    return record.fixed or steps_of(way, record.strategy, now.budget(record.strategy))


def abort(state: Coordination, id_: str, now: Now, reason: str) -> tuple[Event, ...]:
    """Events that end a reconfiguration, or lead it back. Raises RefusedError if it is finished."""
    record = state.find(id_)
    if not record.open or record.phase is Phase.REVERSING:
        msg = f"reconfiguration {id_} is {record.phase}: it can no longer be aborted"
        raise RefusedError(msg)
    if not record.under_way or not record.taken:
        return (finished(record, now, "aborted", reason),)
    _check_replaceable(record)
    if not record.left:
        msg = f"reconfiguration {id_} has made its last step; request the opposite change instead"
        raise RefusedError(msg)
    back = route(now.configuration, _restored(now.configuration, record.base), now.sizes)
    steps = steps_of(back, record.strategy, now.budget(record.strategy))
    return (
        Reversed(
            id=id_,
            time_ms=now.time_ms,
            steps=tuple(map(encode, steps)),
            reason=reason,
        ),
    )


def _restored(configuration: Configuration, base: Mapping[str, Any]) -> Configuration:
    operators = dict(configuration.operators)
    for name, data in base["operators"].items():
        before = decode(OperatorConfiguration, data)
        operators[name] = replace(before, combining=operators[name].combining)
    return replace(configuration, operators=operators, **base["job"])


def _check_when(request: Request, now: Now) -> None:
    given = (request.at_timestep, request.at_ms, request.at_event)
    if sum(each is not None for each in given) > 1:
        msg = "a change has one moment: give a timestep, a time or an event time"
        raise RefusedError(msg)
    if request.at_timestep is not None and request.at_timestep < now.timestep:
        msg = (
            f"timestep {request.at_timestep} has already begun; the next possible one is"
            f" {now.timestep}"
        )
        raise RefusedError(msg)
    if request.at_ms is not None and request.at_ms < now.time_ms:
        then, here = iso_utc(request.at_ms), iso_utc(now.time_ms)
        msg = f"time {then} has passed: the stream is at {here}; omit `at`"
        raise RefusedError(msg)


def _check_replaceable(record: Record) -> None:
    if record.under_way and record.taken and PROGRAM in record.touches:
        msg = f"reconfiguration {record.id} has switched the program; change it back with another request"
        raise RefusedError(msg)


def check_fixed(steps: tuple[Step, ...], now: Configuration, target: Configuration) -> None:
    """Raise RefusedError unless the steps of a plan lead from here to where its change leads."""
    for part in ("first", "last"):
        fields = [(a.operator, a.name) for step in steps for a in getattr(step, part)]
        if len(set(fields)) < len(fields):
            msg = "the plan sets a field more than once; plan again"
            raise RefusedError(msg)
    try:
        made = apply_steps(now, steps)
    except (ValueError, KeyError, TypeError) as error:  # a plan file may hold anything
        msg = f"the plan does not fit the present configuration ({error}); plan again"
        raise RefusedError(msg) from error
    if replace(made, version=0) != replace(target, version=0):
        msg = "the steps of the plan no longer lead to the result of its change; plan again"
        raise RefusedError(msg)
