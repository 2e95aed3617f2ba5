"""A server in a thread, beside a running job."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rechannel.errors import RefusedError, SetUpError
from rechannel.running import RunningJob
from rechannel.serve.address import PORT, check_token, is_loopback, listen
from rechannel.state.tokens import leave_token, take_token_away

if TYPE_CHECKING:
    import uvicorn

EXTRA = ("fastapi", "uvicorn", "prometheus_client")
LINGER_SECONDS = 2.0
"""How long the server still answers after the job has ended, for clients that poll it."""

CLOSE_SECONDS = 10.0
_ATTENTION_SECONDS = 0.1


class Server:
    """Serves one job until it is closed or the job ends. Made by `RunningJob.serve`."""

    def __init__(
        self,
        job: RunningJob,
        server: uvicorn.Server,
        listener: socket.socket,
        token: str,
        token_file: Path | None,
    ) -> None:
        """Start the threads. listener: already listens. token_file: removed when the server ends."""
        self.token = token
        """The token that every request must carry."""
        self.token_file = token_file
        """File with the token that was made for this server; None for a token that was given."""
        self._job = job
        self._server = server
        self._listener = listener
        host, port = listener.getsockname()[:2]
        self.host: str = host
        self.port: int = port
        self._closed = threading.Event()
        self._thread = threading.Thread(
            target=self._serve, name=f"rechannel-serve-{job.name}", daemon=True
        )
        self._thread.start()
        self._company = threading.Thread(
            target=self._end_with_the_job, name="rechannel-serve-end", daemon=True
        )
        self._company.start()

    @property
    def url(self) -> str:
        """Its address, such as http://127.0.0.1:8520."""
        return url_of(self.host, self.port)

    @property
    def is_open(self) -> bool:
        """Whether it still answers."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Answer the requests that have arrived, and end. The job continues."""
        self._closed.set()
        self._server.should_exit = True
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_SECONDS)

    def linger(self) -> None:
        """Answer for some more seconds if the job has ended by itself: its clients may ask how."""
        if not self._job.is_active:
            self._company.join(LINGER_SECONDS + CLOSE_SECONDS)

    def __enter__(self) -> Self:
        """Return itself; closed at the end of the `with`."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def __repr__(self) -> str:
        """Job and address."""
        return f"<Server of {self._job.name!r} at {self.url}{'' if self.is_open else ', closed'}>"

    def _serve(self) -> None:
        run_to_the_end(self._server, self._listener, self.token, self.token_file)

    def _end_with_the_job(self) -> None:
        while self._job.is_active:
            if self._closed.wait(_ATTENTION_SECONDS):
                return
        self._closed.wait(LINGER_SECONDS)
        self.close()


def serve(
    job: RunningJob,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    token: str | None = None,
    allow: Sequence[str] = (),
    programs: Sequence[str] = (),
    kind: type = object,
    words: Callable[[], str] = secrets.token_urlsafe,
) -> Server:
    """Serve a running job over HTTP, in a thread.

    port: 0 takes a free one. token: what every request must carry; without one, `words` makes it, and it is written to
    a file that this user's commands find. allow: modules whose functions and controllers requests may name; controllers
    that were installed by such a path, and that this driver does not have, come back. programs: files and directories
    of programs that requests may deploy; kind: the class of jobs in them.

    Raises SetUpError without the extra `serve`; RefusedError if the port is taken, the token's file cannot be written,
    or the job does not run.
    """
    require_extra()
    import uvicorn

    from rechannel.serve.allowed import Allowed
    from rechannel.serve.app import application
    from rechannel.serve.guard import Rules
    from rechannel.serve.health import OPEN
    from rechannel.serve.page.routes import open_paths
    from rechannel.serve.programs import Deploys, programs_of

    if not job.is_active:
        msg = f"job {job.name!r} is not running: start it, then serve it"
        raise RefusedError(msg)
    allowed = Allowed(modules=tuple(allow) if not isinstance(allow, str) else (allow,))
    deploys = Deploys(programs_of(programs), kind, time.time())
    if allowed.modules:
        job.readmit(allowed.controller)
    if token is not None:
        check_token(token)
    listener = listen(host, port)
    secret = words() if token is None else token
    left = None if token is not None else leave(listener, secret, "job.serve(token=...)")
    rules = Rules(
        bound=host,
        token=secret,
        local=token is None and is_loopback(host),
        unlocked=OPEN | open_paths(),
    )
    config = configuration(application(job, rules, allowed, deploys))
    return Server(job, uvicorn.Server(config), listener, secret, left)


def run_to_the_end(
    server: uvicorn.Server, listener: socket.socket, token: str, token_file: Path | None
) -> None:
    """Answer requests until the server is to end, and take its token away. For a thread of its own."""
    try:
        with listener:
            server.run(sockets=[listener])
    finally:
        if token_file is not None:
            with suppress(OSError):  # the folder is gone
                take_token_away(token_file, token)


def configuration(app: Any, *, graceful_s: int = 2) -> uvicorn.Config:
    """Return how uvicorn serves an application. graceful_s: for how long its end waits for requests."""
    import uvicorn

    from rechannel.serve.connections import Impatient

    return uvicorn.Config(
        app,
        http=Impatient,
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=graceful_s,
    )


def leave(listener: socket.socket, token: str, instead: str) -> Path:
    """Write a token for this user's commands. Raises RefusedError, and closes the socket.

    instead: how to give a token.
    """
    host, port = listener.getsockname()[:2]
    try:
        return leave_token(host, port, token)
    except (OSError, RefusedError) as error:
        listener.close()
        msg = f"the token cannot be written where commands find it ({error}); give one: {instead}"
        raise RefusedError(msg) from error


def url_of(host: str, port: int) -> str:
    """Return the URL of a server that is bound to an address; of this machine, if it is bound to all."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def require_extra() -> None:
    """Raise SetUpError, naming what to install, unless the extra `serve` is installed."""
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        msg = f"serving a job needs {', '.join(missing)}: pip install 'rechannel[serve]'"
        raise SetUpError(msg)
