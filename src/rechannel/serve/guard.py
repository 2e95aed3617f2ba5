"""Authentication of every request before it reaches a route: an ASGI application around another one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from starlette.responses import JSONResponse

from rechannel.serve.address import bears, is_same_origin, names_itself
from rechannel.serve.reading import MOST_BYTES

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_SECONDS = 30.0
"""How long a body may take to arrive."""

THROWN_AWAY = 8
"""How many times the largest body is read and dropped of one that is too large: clients read a response only after
sending.
"""

JSON = frozenset({"application/json"})

JOB_TOKEN = (
    "this job needs its token, as `Authorization: Bearer TOKEN`: the one given to job.serve(),"
    " or server.token, which commands of the same user on the same machine find themselves"
)

FULL = (
    "too many bytes wait to be handled: send the request again after a while, and fewer at a time"
)


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A response of the guard itself."""

    status: int
    error: str
    message: str
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Which requests are let through."""

    bound: str
    """The host that the server was bound to."""

    token: str
    """The token that every request carries."""

    local: bool
    """Whether the Host must be loopback or `bound`, and the Origin the same."""

    kinds: frozenset[str] = JSON
    """Content types of bodies."""

    kinds_message: str = "bodies are JSON: Content-Type: application/json"
    """Message to a body of another type."""

    token_message: str = JOB_TOKEN
    """Message to a request without the token."""

    unlocked: frozenset[str] = frozenset()
    """Paths whose GET needs no token; no body is read there."""

    def is_unlocked(self, method: str, path: str) -> bool:
        """Whether a request needs no token."""
        return method == "GET" and path in self.unlocked

    def refuse(self, method: str, headers: list[tuple[str, str]], path: str = "") -> Refusal | None:
        """The response to a refused request, or None. headers: names in lower case."""

        def all_of(name: str) -> list[str]:
            return [value for key, value in headers if key == name]

        if self.local:
            stranger = self._from_a_stranger(all_of("host"), all_of("origin"))
            if stranger is not None:
                return stranger
        if not self.is_unlocked(method, path) and not bears(all_of("authorization"), self.token):
            return Refusal(
                status=401,
                error="unauthorized",
                message=self.token_message,
                headers=(("WWW-Authenticate", "Bearer"),),
            )
        kinds = [value.partition(";")[0].strip().lower() for value in all_of("content-type")]
        sizes = {*all_of("content-length"), *all_of("transfer-encoding")}
        nothing = not kinds and sizes <= {"0"}
        if method == "POST" and (len(kinds) != 1 or kinds[0] not in self.kinds) and not nothing:
            return Refusal(status=415, error="malformed", message=self.kinds_message)
        return None

    def _from_a_stranger(self, hosts: list[str], origins: list[str]) -> Refusal | None:
        if len(hosts) != 1 or not names_itself(hosts[0], self.bound):
            message = (
                "the Host of the request is another one: use the address that the job is served at"
            )
            return Refusal(status=403, error="forbidden", message=message)
        if not all(is_same_origin(origin, hosts[0]) for origin in origins):
            message = "pages of another origin may not talk to this job"
            return Refusal(status=403, error="forbidden", message=message)
        return None


class Room:
    """Bytes that all requests together may hold. For one thread."""

    def __init__(self, most: int) -> None:
        """most: bytes."""
        self.most = most
        self.held = 0

    def take(self, size: int) -> bool:
        """Hold more bytes, if they are within the bound."""
        if self.held + size > self.most:
            return False
        self.held += size
        return True

    def give(self, size: int) -> None:
        """Hold fewer."""
        self.held -= size


class Share:
    """What one request holds of the room."""

    def __init__(self, room: Room | None) -> None:
        """room: None for no bound."""
        self._room = room
        self.size = 0

    def fits(self, size: int) -> bool:
        """Whether the request could hold more bytes if there were no others."""
        return self._room is None or self.size + size <= self._room.most

    def take(self, size: int) -> bool:
        """Hold more bytes, if there is room."""
        if self._room is not None and not self._room.take(size):
            return False
        self.size += size
        return True

    def handed_over(self) -> Share:
        """Return another one that holds everything in place of this one, longer than the request lasts."""
        other = Share(self._room)
        other.size, self.size = self.size, 0
        return other

    def give(self) -> None:
        """Hold nothing any more."""
        if self._room is not None:
            self._room.give(self.size)
        self.size = 0


SHARE = "rechannel.share"
"""Key of a request's `Share` in its scope."""


class Guard:
    """Passes on the requests that the rules allow, with a complete body of limited size."""

    def __init__(
        self, app: App, rules: Rules, *, most_bytes: int = MOST_BYTES, room: Room | None = None
    ) -> None:
        """Guard this application. most_bytes: of a body. room: of all bodies together."""
        self._app = app
        self._rules = rules
        self._most = most_bytes
        self._room = room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return
        headers = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in scope["headers"]]
        refusal = self._rules.refuse(scope["method"], headers, scope["path"])
        share = scope[SHARE] = Share(self._room)
        try:
            body = b""
            if refusal is None and not self._rules.is_unlocked(scope["method"], scope["path"]):
                arrived = await _body(receive, self._most, share)
                if isinstance(arrived, Refusal):
                    refusal = arrived
                elif arrived is None:
                    return
                else:
                    body = arrived
            if refusal is not None:
                await _answer(refusal)(scope, receive, send)
                return
            await self._app(scope, _again(body, receive), send)
        finally:
            share.give()


def _answer(refusal: Refusal) -> JSONResponse:
    content = {"error": refusal.error, "message": refusal.message}
    headers = {**dict(refusal.headers), "Connection": "close"}
    return JSONResponse(content, status_code=refusal.status, headers=headers)


async def _body(receive: Receive, most: int, share: Share) -> bytes | Refusal | None:
    """The whole body, or the response to a refused one; None if the client has disconnected."""
    parts: list[bytes] = []
    size, full = 0, False
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while size <= THROWN_AWAY * most:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                part = message.get("body", b"")
                size += len(part)
                full = full or (size <= most and not share.take(len(part)))
                if size <= most and not full:
                    parts.append(part)
                else:
                    parts.clear()
                    share.give()
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        return Refusal(status=408, error="malformed", message="the body did not arrive in time")
    if size > most:
        message_ = f"the body is too large: at most {most:,} bytes are read"
        return Refusal(status=413, error="malformed", message=message_)
    if full:
        return Refusal(status=429, error="not_ready", message=FULL, headers=(("Retry-After", "1"),))
    return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns a body that has been read."""
    given = False

    async def first_the_body() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return first_the_body
