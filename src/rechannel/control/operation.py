"""A control operation as its controller sends it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rechannel.errors import RefusedError
from rechannel.kernels.protocol.control import HANDLER_SECONDS, REPLY_BYTES, OperatorHandler
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.strategies import Strategy

MOST_REPLY_BYTES = 1 << 20
"""Bytes above which no reply is accepted: replies are part of the journal."""

MOST_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Operation:
    """What a controller sends through the stream; `operation` makes one."""

    handler: OperatorHandler
    operators: frozenset[str] | None
    blocking: bool
    change: Change | None
    strategy: Strategy | None
    reply_bytes: int
    seconds: float


def operation(
    handler: OperatorHandler,
    *,
    operators: Sequence[str] | None = None,
    blocking: bool = False,
    change: Change | None = None,
    strategy: Strategy | None = None,
    reply_bytes: int = REPLY_BYTES,
    seconds: float = HANDLER_SECONDS,
) -> Operation:
    """Return a control operation, to be returned by `Controller.on_begin`.

    Args:
        handler: runs in the tasks that the message passes.
        operators: names of the operators and sources whose tasks run it; None = all.
        blocking: handlers run before the rows of the timestep, after everything before it; else after its rows.
        change: holds from the operation's timestep on: what comes before it is processed under the old
            Configuration, and its own rows and all later ones under the new one. Only with `blocking`.
        strategy: how the change is made; by default all at once. The message travels with its last step.
        reply_bytes: bytes that the merged replies of one operator may have, as JSON.
        seconds: that the handler may take in one task, unpickling and merging included. The task waits for it.

    Raises:
        RefusedError: an argument is out of its range.
    """
    if not isinstance(handler, OperatorHandler):
        msg = f"handler={handler!r}: give an instance of a class derived from rc.control.OperatorHandler"
        raise RefusedError(msg)
    if change is not None and not blocking:
        msg = "an operation with a change is a blocking one: add blocking=True"
        raise RefusedError(msg)
    if strategy is not None and change is None:
        msg = "strategy= says how a change is made, and the operation has none: add change="
        raise RefusedError(msg)
    if isinstance(operators, str):
        msg = f"operators={operators!r}: give names in a list, as operators=[{operators!r}]"
        raise RefusedError(msg)
    if not 0 < reply_bytes <= MOST_REPLY_BYTES:
        msg = f"reply_bytes={reply_bytes}: give 1 to {MOST_REPLY_BYTES:,}"
        raise RefusedError(msg)
    if not 0 < seconds <= MOST_SECONDS:
        msg = f"seconds={seconds}: give more than 0 and at most {MOST_SECONDS:g}"
        raise RefusedError(msg)
    return Operation(
        handler=handler,
        operators=None if operators is None else frozenset(operators),
        blocking=blocking,
        change=change,
        strategy=strategy,
        reply_bytes=reply_bytes,
        seconds=seconds,
    )
