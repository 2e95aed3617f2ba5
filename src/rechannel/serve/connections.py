"""Limits for silent connections: each is an open file of the driver's process, and needs no token.

uvicorn starts its timeout with the first response. Here the head of a request must be complete soon after the
connection is made, or after the previous response, however slowly its bytes arrive; who takes nothing of a response for
as long is cut off; and the number of connections is limited.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
"""How long the first line and the headers of a request may take to arrive."""

MOST_CONNECTIONS = 256
"""Open connections at a time. One more closes the one that has been silent for longest."""


class Impatient(H11Protocol):
    """One connection with a deadline."""

    def __init__(self, *given: Any, **named: Any) -> None:
        """Take the arguments of uvicorn's protocol."""
        super().__init__(*given, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._silent_since = 0.0
        self._untaken = 0
        self._stalled: asyncio.TimerHandle | None = None
        self._full_since: float | None = None
        self._ended = False

    @property
    def silent_since(self) -> float | None:
        """Time since which it has no request in progress, or takes too little of a response; None otherwise."""
        if self._full_since is not None:
            return self._full_since
        asks = self.conn.their_state is not h11.IDLE and not self.transport.is_closing()
        return None if asks or self.transport.get_write_buffer_size() else self._silent_since

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline of the first request."""
        super().connection_made(transport)
        self._watch()
        others = [one for one in self.connections if isinstance(one, Impatient) and not one._ended]
        if len(others) > MOST_CONNECTIONS:
            self._make_room(others)

    def data_received(self, data: bytes) -> None:
        """Stop the deadline if this completes the head of a request."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Start the deadline of the next request. Who was answered before the end of a body has no next one."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self.transport.close()
        self._watch()

    def pause_writing(self) -> None:
        """The client takes less than it is sent, and further requests of it may wait in line: watch what it takes."""
        super().pause_writing()
        self._full_since = self.loop.time()
        self._look(None)

    def resume_writing(self) -> None:
        """It has taken enough."""
        super().resume_writing()
        self._full_since = None
        self._look_no_more()

    def _look(self, before: int | None) -> None:
        """Close the connection if nothing was taken since the last look."""
        left = self.transport.get_write_buffer_size()
        if before is not None and left >= before:
            self._end()
        else:
            self._stalled = self.loop.call_later(HEAD_SECONDS, self._look, left)

    def _look_no_more(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadlines."""
        self._forget()
        self._look_no_more()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._forget()
        elif self._deadline is None:
            self._silent_since = self.loop.time()
            self._untaken = 0
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._late)

    def _late(self) -> None:
        """Close the connection, unless the client is still reading the previous response."""
        left = self.transport.get_write_buffer_size()
        if left and (not self._untaken or left < self._untaken):
            self._untaken = left
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._late)
        else:
            self._end()

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _make_room(self, there: list[Impatient]) -> None:
        """Close the connection that has been silent for longest; this one, if all others have requests."""
        others = [(one.silent_since, one) for one in there if one is not self]
        silent = [(since, one) for since, one in others if since is not None]
        _, ended = min(silent, key=lambda pair: pair[0], default=(None, self))
        ended._end()

    def _end(self) -> None:
        # The loop removes it later; until then it no longer counts.
        self._ended = True
        self.transport.abort()
