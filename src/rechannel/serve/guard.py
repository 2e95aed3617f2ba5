"""Authentication of every request before it reaches a route: an ASGI application around another one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, MutableMapping
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

MOST_THROWN_AWAY = 8 * MOST_BYTES
"""Bytes of a body that is too large that are read and dropped: clients read a response only after sending."""


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

    def refuse(
        self, method: str, headers: list[tuple[str, str]], *, open_to_all: bool = False
    ) -> Refusal | None:
        """The response to a refused request, or None. headers: names in lower case. open_to_all: without a token."""

        def all_of(name: str) -> list[str]:
            return [value for key, value in headers if key == name]

        if self.local:
            stranger = self._from_a_stranger(all_of("host"), all_of("origin"))
            if stranger is not None:
                return stranger
        if open_to_all:
            return None
        if not bears(all_of("authorization"), self.token):
            return Refusal(
                status=401,
                error="unauthorized",
                message=(
                    "this job needs its token, as `Authorization: Bearer TOKEN`: the one given to job.serve(),"
                    " or server.token, which commands of the same user on the same machine find themselves"
                ),
                headers=(("WWW-Authenticate", "Bearer"),),
            )
        kinds = [value.partition(";")[0].strip().lower() for value in all_of("content-type")]
        sizes = {*all_of("content-length"), *all_of("transfer-encoding")}
        nothing = not kinds and sizes <= {"0"}
        if method == "POST" and kinds != ["application/json"] and not nothing:
            return Refusal(
                status=415,
                error="malformed",
                message="bodies are JSON: Content-Type: application/json",
            )
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


class Guard:
    """Passes on the requests that the rules allow, with a complete body of limited size."""

    def __init__(self, app: App, rules: Rules, health: Collection[str] = ()) -> None:
        """Guard this application. health: paths that may be read without a token; bodies are not read there."""
        self._app = app
        self._rules = rules
        self._health = health

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return
        headers = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in scope["headers"]]
        health = scope["path"] in self._health and scope["method"] == "GET"
        refusal = self._rules.refuse(scope["method"], headers, open_to_all=health)
        body = b""
        if refusal is None and not health:
            arrived = await _body(receive)
            if isinstance(arrived, Refusal):
                refusal = arrived
            elif arrived is None:
                return
            else:
                body = arrived
        if refusal is not None:
            content = {"error": refusal.error, "message": refusal.message}
            headers_ = {**dict(refusal.headers), "Connection": "close"}
            answer = JSONResponse(content, status_code=refusal.status, headers=headers_)
            await answer(scope, receive, send)
            return
        await self._app(scope, _again(body, receive), send)


async def _body(receive: Receive) -> bytes | Refusal | None:
    """The whole body, or the response to a refused one; None if the client has disconnected."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while size <= MOST_THROWN_AWAY:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                part = message.get("body", b"")
                size += len(part)
                if size <= MOST_BYTES:
                    parts.append(part)
                else:
                    parts.clear()
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        return Refusal(status=408, error="malformed", message="the body did not arrive in time")
    if size > MOST_BYTES:
        message_ = f"the body is too large: at most {MOST_BYTES:,} bytes are read"
        return Refusal(status=413, error="malformed", message=message_)
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
