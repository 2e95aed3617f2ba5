"""Entity tags: a client that has an answer already gets 304 in its place. An ASGI application around another one.

The answer is made all the same, so what is saved is its way to the client, and what the client does with it.
"""

from __future__ import annotations

from hashlib import blake2b

from rechannel.serve.guard import App, Message, Receive, Scope, Send

TAG_BYTES = 12
OF_BODIES = frozenset({b"content-length", b"content-type"})


class Tagged:
    """Tags every answer of success to a GET that has one piece."""

    def __init__(self, app: App) -> None:
        """Tag what this application answers."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        known = [value for name, value in scope["headers"] if name == b"if-none-match"]
        started: Message | None = None

        async def tagged(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start" and message["status"] == 200:
                started = message
                return
            if started is not None:
                first, started = started, None
                first, message = _with_tag(first, message, known)
                await send(first)
            await send(message)

        await self._app(scope, receive, tagged)


def _with_tag(start: Message, body: Message, known: list[bytes]) -> tuple[Message, Message]:
    """Return the beginning and the body of an answer, or of "not modified". known: values of If-None-Match."""
    if body.get("more_body", False):
        return start, body
    tag = b'"%s"' % blake2b(body.get("body", b""), digest_size=TAG_BYTES).hexdigest().encode()
    headers = [*start["headers"], (b"etag", tag)]
    if tag not in known:
        return {**start, "headers": headers}, body
    headers = [(name, value) for name, value in headers if name not in OF_BODIES]
    return {**start, "status": 304, "headers": headers}, {**body, "body": b""}
