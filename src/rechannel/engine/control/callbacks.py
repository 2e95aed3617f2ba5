"""One callback of a controller: what it is given, and what comes of it. Runs in the controllers' thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rechannel.control.board import LINE_CHARACTERS, LOG_KEPT, Seat, SentOperation, shown
from rechannel.control.controller import MOST_METRICS, Control, Controller
from rechannel.control.events import ControlEvent, Dropped, Failed, Handled
from rechannel.control.operation import Operation
from rechannel.control.triggers import KINDS, METRICS, Moment, Trigger
from rechannel.engine.control.outcomes import outcome_of, reply_of
from rechannel.errors import RefusedError, one_sentence
from rechannel.kernels.protocol.control import ControlMessage, OperatorHandler
from rechannel.kernels.tasks.limited import FailedCallError, jsonable, within
from rechannel.logs import fields
from rechannel.model.codec import Json, decode
from rechannel.reconfigure.strategies import AllAtOnce, Strategy

_LOG = logging.getLogger("rechannel")

STATE_BYTES = 1 << 20
"""Bytes above which no state of a controller is accepted: it is part of the journal and of its snapshots."""

REQUEST_BYTES = 4 << 20
"""Bytes that the requests of one callback may have, as JSON."""

MOST_REQUESTS = 50
"""Changes that one callback may request."""

HANDLER_BYTES = 4 << 20
"""Bytes that a pickled handler may have: every task gets it."""

MOST_HEAVIEST = 1_000
"""How many of its heaviest keys a task shows at most."""


@dataclass(frozen=True, kw_only=True)
class Hosted:
    """A controller in this driver."""

    controller: Controller
    trigger: Trigger
    """As it was when the controller came: the driver's thread looks at it."""
    state_type: type | None
    """Dataclass of its state; None = values that JSON can hold."""

    @classmethod
    def of(cls, controller: Controller, name: str, seconds: float) -> tuple[Hosted, Json]:
        """Return it with its first state as JSON. Raises RefusedError if `on_init` fails or takes longer."""
        try:
            return within(seconds, partial(cls._of, controller), name)
        except FailedCallError as error:
            msg = f"controller {name!r} is not installed, for its on_init failed: {str(error)[-2_000:]}"
            raise RefusedError(msg) from error

    @classmethod
    def _of(cls, controller: Controller) -> tuple[Hosted, Json]:
        trigger = controller.trigger
        if type(trigger) not in KINDS:
            msg = f"trigger={trigger!r}: make one with rc.control.every, on, when or by_hand"
            raise TypeError(msg)
        before = Moment(timestep=0, time_ms=0)
        # It raises for a bound that is not a number.
        trigger.due(Moment(timestep=1, time_ms=1, progress=dict.fromkeys(METRICS, 0.0)), before)
        first = controller.on_init()
        kind = type(first) if hasattr(first, "__dataclass_fields__") else None
        state = jsonable(first, STATE_BYTES, "its state")
        return cls(controller=controller, trigger=trigger, state_type=kind), state

    def read(self, state: Json) -> Any:
        """Return a state as the controller knows it, apart from the one that is committed."""
        return deepcopy(state) if self.state_type is None else decode(self.state_type, state)


@dataclass(frozen=True, kw_only=True)
class Returned:
    """What a callback has left."""

    event: ControlEvent
    message: ControlMessage | None = None
    """Of an operation that was begun."""
    operation: Operation | None = None


def is_quiet(seat: Seat, event: Handled) -> bool:
    """Whether a callback has left nothing that the journal needs: only the time at which its controller began.

    A trigger that goes by time or timesteps fires again after a restart if that is not known, and nothing else happens.
    What was seen of events and calls is journalled: they count once.
    """
    moment, begun = event.moment, seat.begun
    if moment is None or begun is None or event.operation or seat.failures:
        return False
    left = (event.requests, event.notes, event.metrics)
    same = all(moment[name] == begun.get(name) for name in ("events", "calls"))
    return same and not any(left) and event.state == seat.state


def pickled(handler: OperatorHandler) -> bytes:
    """Return a handler as bytes for tasks; classes of the user's own program travel along."""
    from pyspark import cloudpickle

    data: bytes = cloudpickle.dumps(handler)  # type: ignore[no-untyped-call]
    return data


@dataclass(frozen=True, kw_only=True)
class Callback:
    """Calls a controller once. Called in the controllers' thread; never raises.

    All that is the user's runs within the controller's time, what turns its values into JSON included.
    """

    hosted: Hosted
    seat: Seat
    state: Json
    """What `control.state` begins with."""
    control: Control[Any]
    moment: Mapping[str, Json] = field(default_factory=dict)
    """Of `begin`: what the trigger has seen."""
    urgent: bool = False

    def begin(self) -> Returned:
        """Call `on_begin`."""
        return self._within("begin", "", self._begun)

    def _within(self, callback: str, id_: str, call: Callable[[], Returned]) -> Returned:
        try:
            return within(self.seat.installed.seconds, call, self.seat.name)
        except FailedCallError as error:
            return Returned(event=self._failed(callback, id_, error))

    def _begun(self) -> Returned:
        id_ = f"{self.seat.name}-{self.seat.serial}.{self.seat.sent + 1}"
        self.control.state = self.hosted.read(self.state)
        made = self.hosted.controller.on_begin(self.control)
        if made is not None and not isinstance(made, Operation):
            msg = f"on_begin returned a {type(made).__name__}: return rc.control.operation(...) or None"
            raise TypeError(msg)
        return Returned(
            event=self._handled("begin", id_ if made else "", made),
            message=None if made is None else self._message(id_, made),
            operation=made,
        )

    def broken(self, error: BaseException) -> Returned:
        """Return the failure of a callback that could not even be called."""
        sent = self.seat.operation
        callback = "begin" if sent is None else "complete"
        return Returned(event=self._failed(callback, "" if sent is None else sent.id, repr(error)))

    def again(self, sent: SentOperation) -> Returned:
        """Call `on_begin` again after a restart, for the operation alone: its state and requests count already."""
        made = self.begin()
        again = "on_begin ran again after a restart"
        if isinstance(made.event, Failed):
            return Returned(event=self._failed("begin", sent.id, f"{again}: {made.event.error}"))
        if made.operation is None or made.message is None:
            reason = f"{again} and returned no operation: it depends on more than its state"
            return Returned(event=self._dropped(sent.id, reason))
        message = replace(made.message, operation=sent.id)
        return Returned(event=made.event, message=message, operation=made.operation)

    def complete(self, sent: SentOperation, operation: Operation) -> Returned:
        """Call `on_next` for every reply and `on_complete` with all of them."""
        return self._within("complete", sent.id, partial(self._completed, sent, operation))

    def dispose(self) -> None:
        """Call `on_dispose`: the controller is removed, so a failure is only logged."""
        try:
            within(self.seat.installed.seconds, self._disposed, self.seat.name)
        except FailedCallError as error:
            _LOG.warning(
                "controller %r: on_dispose failed: %s",
                self.seat.name,
                one_sentence(error),
                extra=fields("controller_not_disposed", controller=self.seat.name, reason=error),
            )

    def _disposed(self) -> None:
        self.control.state = self.hosted.read(self.state)
        self.hosted.controller.on_dispose(self.control)

    def _completed(self, sent: SentOperation, operation: Operation) -> Returned:
        self.control.state = self.hosted.read(self.state)
        handler, timestep = operation.handler, sent.timestep or 0
        reports = sent.reports or ()
        for report in reports:
            self.hosted.controller.on_next(self.control, reply_of(handler, timestep, report))
        outcome = outcome_of(operation, sent.id, timestep, reports)
        self.hosted.controller.on_complete(self.control, outcome)
        return Returned(event=self._handled("complete", sent.id, None))

    def _message(self, id_: str, made: Operation) -> ControlMessage:
        handler, heaviest = pickled(made.handler), made.handler.heaviest
        if len(handler) > HANDLER_BYTES:
            msg = f"its handler has {len(handler):,} bytes as a pickle, over the limit of {HANDLER_BYTES:,}"
            raise ValueError(msg)
        if type(heaviest) is not int or not 0 <= heaviest <= MOST_HEAVIEST:
            msg = f"its handler has heaviest={heaviest!r}: give 0 to {MOST_HEAVIEST:,}"
            raise ValueError(msg)
        return ControlMessage(
            operation=id_,
            handler=handler,
            operators=made.operators,
            blocking=made.blocking,
            heaviest=heaviest,
            reply_bytes=made.reply_bytes,
            seconds=made.seconds,
        )

    def _handled(self, callback: str, id_: str, made: Operation | None) -> Handled:
        """The event of a callback that has returned. Raises TypeError, ValueError for what cannot be kept."""
        if len(self.control.requests) > MOST_REQUESTS:
            msg = f"{len(self.control.requests):,} changes in one callback: request at most {MOST_REQUESTS}"
            raise ValueError(msg)
        metrics = shown(self.seat.metrics, self.control.metrics)
        if sum(map(len, metrics.values())) > MOST_METRICS:
            msg = f"it shows more than {MOST_METRICS} metrics: take some away with control.metric(name, None)"
            raise ValueError(msg)
        wanted = [
            {
                "change": request.change.to_json(),
                "strategy": (request.strategy or AllAtOnce()).to_json(),
                "supersede": request.supersede,
                "reason": request.reason,
            }
            for request in self.control.requests
        ]
        changes = made is not None and made.change is not None
        if made is not None and made.change is not None:
            how: Strategy = made.strategy or AllAtOnce()
            own = {"change": made.change.to_json(), "strategy": how.to_json()}
            wanted.insert(0, {**own, "supersede": False, "reason": f"operation {id_}"})
        return Handled(
            controller=self.seat.name,
            time_ms=self.control.time_ms,
            callback=callback,
            operation=id_,
            state=jsonable(self.control.state, STATE_BYTES, "its state"),
            moment=dict(self.moment) if callback == "begin" else None,
            urgent=self.urgent or (made is not None and made.blocking),
            blocking=made is not None and made.blocking,
            changes=changes,
            requests=tuple(jsonable(wanted, REQUEST_BYTES, "what it requests")),
            notes=tuple(str(note)[:LINE_CHARACTERS] for note in self.control.notes[-LOG_KEPT:]),
            metrics=_news(self.seat.metrics, self.control.metrics),
        )

    def _dropped(self, id_: str, reason: str) -> Dropped:
        return Dropped(
            controller=self.seat.name,
            time_ms=self.control.time_ms,
            operation=id_,
            reason=reason,
        )

    def _failed(self, callback: str, id_: str, error: Exception | str) -> Failed:
        return Failed(
            controller=self.seat.name,
            time_ms=self.control.time_ms,
            callback=callback,
            operation=id_,
            error=str(error)[-2_000:],
            moment=dict(self.moment) if callback == "begin" else None,
        )


def _news(
    known: Mapping[str, Mapping[str, float]], given: Mapping[str, Mapping[str, float | None]]
) -> dict[str, dict[str, float | None]]:
    """Return the metrics that a callback has set, without None for those that were not there."""
    found = {
        name: {o: v for o, v in values.items() if v is not None or o in known.get(name, {})}
        for name, values in given.items()
    }
    return {name: values for name, values in found.items() if values}
