"""One callback of a controller: what it is given, and what comes of it. Runs in the controllers' thread."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

from rechannel.control.board import Seat, SentOperation
from rechannel.control.controller import Control, Controller, Outcome, TaskReply
from rechannel.control.events import ControlEvent, Failed, Handled
from rechannel.control.operation import Operation
from rechannel.kernels.protocol.control import ControlMessage, OperatorHandler
from rechannel.kernels.tasks.control import merged
from rechannel.kernels.tasks.limited import FailedCallError, exceeds, within
from rechannel.model.codec import Json, decode, encode
from rechannel.reconfigure.strategies import AllAtOnce, Strategy

_LOG = logging.getLogger("rechannel")

STATE_BYTES = 1 << 20
"""Bytes above which no state of a controller is accepted: it is part of the journal and of its snapshots."""


@dataclass(frozen=True, kw_only=True)
class Hosted:
    """A controller in this driver."""

    controller: Controller
    state_type: type | None
    """Dataclass of its state; None = values that JSON can hold."""

    @classmethod
    def of(cls, controller: Controller) -> tuple[Hosted, Json]:
        """Return it with its first state as JSON. Raises what `on_init` raises."""
        first = controller.on_init()
        kind = type(first) if hasattr(first, "__dataclass_fields__") else None
        return cls(controller=controller, state_type=kind), encode(first)

    def read(self, state: Json) -> Any:
        """Return a state as the controller knows it."""
        return state if self.state_type is None else decode(self.state_type, state)


@dataclass(frozen=True, kw_only=True)
class Returned:
    """What a callback has left."""

    event: ControlEvent
    message: ControlMessage | None = None
    """Of an operation that was begun."""
    operation: Operation | None = None


def pickled(handler: OperatorHandler) -> bytes:
    """Return a handler as bytes for tasks; classes of the user's own program travel along."""
    from pyspark import cloudpickle

    data: bytes = cloudpickle.dumps(handler)  # type: ignore[no-untyped-call]
    return data


@dataclass(frozen=True, kw_only=True)
class Callback:
    """Calls a controller once. Called in the controllers' thread; never raises."""

    hosted: Hosted
    seat: Seat
    control: Control[Any]
    moment: Mapping[str, Json]
    urgent: bool = False

    def begin(self) -> Returned:
        """Call `on_begin`."""
        id_ = f"{self.seat.name}-{self.seat.serial}.{self.seat.sent + 1}"
        try:
            made = within(self.seat.installed.seconds, partial(self._begun))
            message = None if made is None else self._message(id_, made)
            return Returned(
                event=self._handled("begin", id_ if made else "", made),
                message=message,
                operation=made,
            )
        except (FailedCallError, ValueError, TypeError) as error:
            return Returned(event=self._failed("begin", "", error))

    def _begun(self) -> Operation | None:
        made = self.hosted.controller.on_begin(self.control)
        if made is not None and not isinstance(made, Operation):
            msg = f"on_begin returned a {type(made).__name__}: return rc.control.operation(...) or None"
            raise TypeError(msg)
        return made

    def again(self, sent: SentOperation) -> Returned:
        """Call `on_begin` again after a restart, for the operation alone: its state and requests count already."""
        made = self.begin()
        if made.operation is None or made.message is None:
            error = (
                made.event.error if isinstance(made.event, Failed) else "it returned no operation"
            )
            reason = f"on_begin ran again after a restart: {error}"
            return Returned(event=self._failed("begin", sent.id, reason))
        message = replace(made.message, operation=sent.id)
        return Returned(event=made.event, message=message, operation=made.operation)

    def complete(self, sent: SentOperation, operation: Operation) -> Returned:
        """Call `on_next` for every reply and `on_complete` with all of them."""
        try:
            within(self.seat.installed.seconds, partial(self._completed, sent, operation))
            return Returned(event=self._handled("complete", sent.id, None))
        except (FailedCallError, ValueError, TypeError) as error:
            return Returned(event=self._failed("complete", sent.id, error))

    def dispose(self) -> None:
        """Call `on_dispose`: the controller is removed, so a failure is only logged."""
        try:
            within(
                self.seat.installed.seconds,
                partial(self.hosted.controller.on_dispose, self.control),
            )
        except FailedCallError as error:
            _LOG.warning("controller %r: on_dispose failed: %s", self.seat.name, error)

    def _completed(self, sent: SentOperation, operation: Operation) -> None:
        handler, timestep = operation.handler, sent.timestep or 0
        reports = sent.reports or ()
        for report in reports:
            reply = TaskReply(
                operation=sent.id,
                timestep=timestep,
                replies={n: _typed(handler, value) for n, value in report.replies.items()},
                failures=report.failures,
            )
            self.hosted.controller.on_next(self.control, reply)
        failures = tuple(f for report in reports for f in report.failures)
        outcome = Outcome(
            operation=sent.id,
            timestep=timestep,
            replies=together(
                handler, [report.replies for report in reports], operation.reply_bytes
            ),
            failures=failures,
            failed=len(failures) + sum(report.more for report in reports),
        )
        self.hosted.controller.on_complete(self.control, outcome)

    def _message(self, id_: str, made: Operation) -> ControlMessage:
        return ControlMessage(
            operation=id_,
            handler=pickled(made.handler),
            operators=made.operators,
            blocking=made.blocking,
            heaviest=made.handler.heaviest,
            reply_bytes=made.reply_bytes,
            seconds=made.seconds,
        )

    def _handled(self, callback: str, id_: str, made: Operation | None) -> Handled:
        """The event of a callback that has returned. Raises TypeError, ValueError for a state that cannot be kept."""
        if exceeds(self.control.state, STATE_BYTES):
            msg = f"its state has more than {STATE_BYTES:,} bytes: keep a summary"
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
            state=encode(self.control.state),
            moment=dict(self.moment) if callback == "begin" else None,
            urgent=self.urgent or (made is not None and made.blocking),
            blocking=made is not None and made.blocking,
            changes=changes,
            requests=tuple(wanted),
            notes=tuple(self.control.notes),
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


def together(
    handler: OperatorHandler, replies: Sequence[Mapping[str, Json]], most: int
) -> dict[str, Any]:
    """Return the replies of all tasks, merged by operator. Raises what the handler's merge raises."""
    by_operator: dict[str, list[Json]] = {}
    for each in replies:
        for operator, value in each.items():
            by_operator.setdefault(operator, []).append(value)
    join = partial(_merged, handler, most)
    return {n: _typed(handler, reduce(join, values)) for n, values in by_operator.items()}


def _merged(handler: OperatorHandler, most: int, one: Json, other: Json) -> Json:
    return merged(handler, one, other, most)


def _typed(handler: OperatorHandler, data: Json) -> Any:
    return data if handler.reply_type is None else decode(handler.reply_type, data)
