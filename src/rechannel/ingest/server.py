"""An ingest server: a log, the thread that writes it, and the threads that answer."""

from __future__ import annotations

import secrets
import socket
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from rechannel.errors import RefusedError
from rechannel.ingest.columns import Columns
from rechannel.ingest.committing import LINGER_S, Committer
from rechannel.ingest.writing import LogWriter
from rechannel.serve.address import check_token, is_loopback, listen
from rechannel.serve.server import configuration, leave, require_extra, run_to_the_end, url_of
from rechannel.sources.ingest.log import Identity, IngestLog, read_identity, write_identity
from rechannel.state.stores.local import Durability
from rechannel.state.stores.locations import (
    check_remote,
    check_settings,
    open_backing,
    sweep_temporaries,
)

if TYPE_CHECKING:
    import uvicorn

    from rechannel.ingest.app import Answers

PORT = 8521
"""Default port."""

REQUEST_BYTES = 8_000_000
"""Size of a body."""

WAITING_BYTES = 256_000_000
"""Bytes of bodies and of their rows that wait to be durable."""

GRACEFUL_S = 30
"""How long an end waits for requests that have begun."""

STALE_S = 3_600.0
"""Age after which a temporary file has no living writer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a server takes."""

    request_bytes: int = REQUEST_BYTES
    waiting_bytes: int = WAITING_BYTES
    linger_s: float = LINGER_S
    """How long a file waits for more requests."""
    ignore_unknown: bool = False
    """Whether members of rows that are no columns are ignored."""

    def __post_init__(self) -> None:
        """Check the bounds. Raises RefusedError."""
        if not 0 < self.request_bytes <= self.waiting_bytes:
            raise RefusedError(
                f"a request may have {self.request_bytes:,} bytes, and all that wait {self.waiting_bytes:,}: the first"
                " must be at least 1, and not larger than the second"
            )
        if not 0 <= self.linger_s <= 1:
            raise RefusedError(
                f"a file may wait for requests for 0 to 1 s, not for {self.linger_s:g} s"
            )


def open_log(path: str, schema: pa.Schema | None) -> IngestLog:
    """Open the log at a directory or URL, and make it if there is none.

    Raises RefusedError if it has other columns, or if there is none and no columns are given; SetUpError,
    StorageError.
    """
    store = open_backing(path, Durability.POWER)
    check_settings(store)
    identity = read_identity(store)
    if identity is None:
        if schema is None:
            raise RefusedError(
                f"there is no ingest log at {path} yet: give its columns, as in --schema 'user STRING, ms BIGINT'"
            )
        check_remote(store)
    if schema is not None:
        identity = write_identity(store, Identity(id=uuid.uuid4().hex, schema=schema))
    if identity is None:
        raise RefusedError(f"the ingest log at {path} has just been removed")
    return IngestLog(store=store, identity=identity, place=path)


@dataclass
class IngestServer:
    """Answers until it is closed. Made by `serve_log`."""

    log: IngestLog
    committer: Committer
    token: str
    token_file: Path | None
    """File with the token that was made for this server; None for a token that was given."""
    _answers: Answers
    _server: uvicorn.Server
    _listener: socket.socket
    host: str = field(init=False)
    port: int = field(init=False)
    is_complete: bool = field(init=False, default=True)
    """Whether everything that had begun when it was closed was kept and answered."""

    def __post_init__(self) -> None:
        """Start the threads."""
        self.host, self.port = self._listener.getsockname()[:2]
        self.committer.start()
        self._thread = threading.Thread(
            target=self._serve, name="rechannel-ingest-serve", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Its address, such as http://127.0.0.1:8521."""
        return url_of(self.host, self.port)

    @property
    def is_open(self) -> bool:
        """Whether it still answers, and can keep rows."""
        return self._thread.is_alive() and self.committer.alive

    def close(self) -> None:
        """Keep and answer what has begun, and end. A store that does not answer is given up after a minute."""
        self._server.should_exit = True
        self._thread.join(GRACEFUL_S + 10)
        ended = not self._thread.is_alive()
        self.is_complete = self.committer.close(GRACEFUL_S) and ended and not self._answers.cut_off

    def __enter__(self) -> Self:
        """Return itself; closed at the end of the `with`."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def _serve(self) -> None:
        run_to_the_end(self._server, self._listener, self.token, self.token_file)


def serve_log(
    path: str,
    *,
    schema: pa.Schema | None = None,
    host: str = "127.0.0.1",
    port: int = PORT,
    token: str | None = None,
    limits: Limits | None = None,
) -> IngestServer:
    """Serve an ingest log over HTTP, in threads.

    schema: columns of a new log; None for those of an existing one. port: 0 takes a free one. token: what requests
    must carry; without one, it is made, and written to a file that processes of this user find.
    Raises SetUpError without the extra `serve`, RefusedError, DataflowError for a type that rows cannot have,
    StorageError, DamagedStateError.
    """
    require_extra()
    import uvicorn

    from rechannel.ingest.app import KINDS, KINDS_MESSAGE, TOKEN_MESSAGE, UNLOCKED, Answers, Ingest
    from rechannel.serve.guard import Guard, Room, Rules

    limits = limits or Limits()
    if token is not None:
        check_token(token)
    if schema is not None:
        Columns(schema)
    log = open_log(path, schema)
    columns = Columns(log.identity.schema, limits.ignore_unknown)
    sweep_temporaries(log.store, time.time() - STALE_S)
    writer = LogWriter(log=log, now_ms=lambda: time.time_ns() // 1_000_000)
    writer.open()
    listener = listen(host, port)
    secret = secrets.token_urlsafe() if token is None else token
    left = None if token is not None else leave(listener, secret, "--token-file FILE")
    rules = Rules(
        bound=host,
        token=secret,
        local=token is None and is_loopback(host),
        kinds=frozenset(KINDS),
        kinds_message=KINDS_MESSAGE,
        token_message=TOKEN_MESSAGE,
        unlocked=UNLOCKED,
    )
    answers = Answers()
    committer = Committer(writer=writer, done=answers.tell, linger_s=limits.linger_s)
    app = Ingest(committer=committer, columns=columns, log=log.identity.id).application()
    guard = Guard(app, rules, most_bytes=limits.request_bytes, room=Room(limits.waiting_bytes))
    server = uvicorn.Server(configuration(guard, graceful_s=GRACEFUL_S))
    return IngestServer(log, committer, secret, left, answers, server, listener)
