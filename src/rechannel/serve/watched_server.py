"""A server of the page and of the routes that only look, in a thread: for a job that is looked at from outside."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rechannel.serve.address import check_token, is_loopback, listen
from rechannel.serve.server import (
    CLOSE_SECONDS,
    configuration,
    leave,
    require_extra,
    run_to_the_end,
    url_of,
)

if TYPE_CHECKING:
    import uvicorn

    from rechannel.serve.watched import Watched

PORT = 8522


@dataclass
class WatchedServer:
    """Answers until it is closed. Made by `serve_watched`."""

    token: str
    token_file: Path | None
    """File with the token that was made for this server; None for a token that was given."""
    _server: uvicorn.Server
    _listener: socket.socket
    url: str = field(init=False)

    def __post_init__(self) -> None:
        """Start the thread."""
        host, port = self._listener.getsockname()[:2]
        self.url = url_of(host, port)
        self._thread = threading.Thread(target=self._serve, name="rechannel-ui", daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Whether it still answers."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Answer the requests that have arrived, and end."""
        self._server.should_exit = True
        self._thread.join(CLOSE_SECONDS)

    def __enter__(self) -> Self:
        """Return itself; closed at the end of the `with`."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def _serve(self) -> None:
        run_to_the_end(self._server, self._listener, self.token, self.token_file)


def serve_watched(
    job: Watched,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    token: str | None = None,
    words: Callable[[], str] = secrets.token_urlsafe,
) -> WatchedServer:
    """Serve a job that is only looked at. Arguments as of `server.serve`.

    Raises SetUpError without the extra `serve`; RefusedError if the port is taken, or the token's file cannot be
    written.
    """
    require_extra()
    import uvicorn

    from rechannel.serve.app import read_only_application
    from rechannel.serve.guard import Rules
    from rechannel.serve.page.routes import open_paths

    if token is not None:
        check_token(token)
    listener = listen(host, port)
    secret = words() if token is None else token
    left = None if token is not None else leave(listener, secret, "--token")
    rules = Rules(
        bound=host,
        token=secret,
        local=token is None and is_loopback(host),
        unlocked=open_paths(),
    )
    return WatchedServer(
        secret, left, uvicorn.Server(configuration(read_only_application(job, rules))), listener
    )
