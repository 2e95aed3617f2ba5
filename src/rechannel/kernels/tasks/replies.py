"""Replies of handlers: written as JSON, read again, and merged."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rechannel.kernels.protocol.control import OperatorHandler
from rechannel.kernels.tasks.limited import exceeds, jsonable
from rechannel.model.codec import Json, decode

LOOKED_AT = 64
"""After this many merges of replies, the size of their result is looked at."""


def written(handler: OperatorHandler, reply: Any, most: int) -> Json:
    """Return a reply as JSON.

    Raises TypeError, ValueError for what JSON or the handler's `reply_type` cannot hold, and above `most` bytes.
    """
    data = jsonable(reply, most, "its reply")
    read(handler, data)
    return data


def read(handler: OperatorHandler, data: Json) -> Any:
    """Return a reply as the handler knows it. Raises TypeError if it is not of the handler's `reply_type`."""
    if handler.reply_type is None:
        return data
    try:
        return decode(handler.reply_type, data)
    except (KeyError, TypeError, ValueError) as error:
        msg = f"its reply is no {handler.reply_type.__name__}: {type(error).__name__}: {error}"
        raise TypeError(msg) from error


def by_operator(replies: Iterable[Mapping[str, Json]]) -> dict[str, list[Json]]:
    """Return the replies of several tasks, each with its own by operator, as one list per operator."""
    found: dict[str, list[Json]] = {}
    for each in replies:
        for operator, value in each.items():
            found.setdefault(operator, []).append(value)
    return found


@dataclass
class Merging:
    """Merges the replies of one operator. One that cannot be read or merged is lost, and not the others."""

    handler: OperatorHandler
    values: Sequence[Json]
    most: int
    """Bytes that the result may have."""
    errors: list[str] = field(default_factory=list)
    """Tracebacks, one for each reply that is lost."""

    def run(self) -> Json:
        """Return the result as JSON. Raises ValueError if it is too large, or if every reply is lost."""
        merged: list[Any] = []
        for number, value in enumerate(self.values):
            try:
                reply = read(self.handler, value)
                merged[:] = [self.handler.merge(merged[0], reply) if merged else reply]
            except Exception:
                self.errors.append(traceback.format_exc())
                continue
            if number and number % LOOKED_AT == 0 and exceeds(merged[0], self.most):
                break  # the result is refused
        if not merged:
            raise ValueError(self.errors.pop())
        return written(self.handler, merged[0], self.most)
