"""`rechannel ingest`: take rows over HTTP into a log that jobs read."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rechannel.cli.remote.client import TOKEN
from rechannel.cli.remote.values import seconds
from rechannel.cli.screen import count, say
from rechannel.cli.signals import Asked
from rechannel.errors import RechannelError, RefusedError, one_sentence
from rechannel.logs import fields
from rechannel.reconfigure.notation import byte_count
from rechannel.threads import DaemonThreads

if TYPE_CHECKING:
    from rechannel.ingest.server import IngestServer
    from rechannel.sources.ingest.log import IngestLog

_POLL_SECONDS = 0.2
_REMOVE_SECONDS = 60.0
_LOG = logging.getLogger("rechannel")


def ingest(  # noqa: PLR0913, PLR0917 - the options of the command
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="Directory of the log, or the URL of a bucket.")
    ],
    schema: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="Columns of a new log: 'user STRING, ms BIGINT'."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to answer at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8521,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help=f"File with the token of all requests; default: that of {TOKEN}, or a new one."
        ),
    ] = None,
    request_bytes: Annotated[
        str, typer.Option(metavar="SIZE", help="Largest body of a request.")
    ] = "8MB",
    waiting_bytes: Annotated[
        str, typer.Option(metavar="SIZE", help="Most bytes that wait to be written, in memory.")
    ] = "256MB",
    linger: Annotated[
        str, typer.Option(metavar="TIME", help="How long a file waits for more requests.")
    ] = "2ms",
    ignore_unknown: Annotated[
        bool, typer.Option(help="Ignore members that are no columns, instead of refusing the rows.")
    ] = False,
    remove_read_by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE_DIR",
            help="Every minute, remove files that this job has read. May be repeated: all of them must have.",
        ),
    ] = None,
    only_remove: Annotated[
        bool, typer.Option("--only-remove", help="Remove such files once, and serve nothing.")
    ] = False,
) -> None:
    """Take rows over HTTP into a log that jobs read with `rc.read().ingested(DIR)`.

    An answer of 200 says that the rows are durable. Ctrl-C (or SIGTERM) keeps and answers what has begun, and ends.
    """
    from rechannel.ingest.server import Limits, open_log, serve_log
    from rechannel.model.ddl import schema_of

    states = remove_read_by or []
    if only_remove:
        if not states:
            raise RefusedError("--only-remove needs --remove-read-by STATE_DIR: whose files?")
        _remove(open_log(directory, None), states)
        return
    server = serve_log(
        directory,
        schema=None if schema is None else schema_of(schema),
        host=host,
        port=port,
        token=_token(token_file),
        limits=Limits(
            request_bytes=byte_count(request_bytes),
            waiting_bytes=byte_count(waiting_bytes),
            linger_s=seconds(linger),
            ignore_unknown=ignore_unknown,
        ),
    )
    with Asked() as signals, server:
        left = f" (token: {server.token_file})" if server.token_file else ""
        say(f"taking rows for {directory} at {server.url}{left}")
        remover = DaemonThreads(1, "rechannel-ingest-remove")  # it may take long, or for ever
        removing: Future[None] | None = None
        until_removal = 0.0
        while server.is_open and not signals.asked.wait(_POLL_SECONDS):
            until_removal -= _POLL_SECONDS
            if states and until_removal <= 0 and (removing is None or removing.done()):
                until_removal = _REMOVE_SECONDS
                if removing is not None:
                    removing.result()
                removing = remover.submit(_try_to_remove, server, states, signals.asked.is_set)
        remover.shutdown(wait=False)
        if signals.asked.is_set():
            say("stopping: requests that have begun are finished; a second signal ends at once")
    say(f"stopped: the log has {count(server.committer.standing.rows)} rows")
    if not server.is_complete:
        raise RechannelError(
            "the store did not answer: requests that waited were not acknowledged, and have to be sent again"
        )
    if not signals.asked.is_set():
        raise RechannelError("the server has ended by itself; see its log")


def _try_to_remove(server: IngestServer, states: Sequence[str], stop: Callable[[], bool]) -> None:
    """Remove what was read; what cannot be done now is tried again."""
    try:
        _remove(server.log, states, stop, quiet=True)
    except RechannelError as error:
        _LOG.warning(
            "ingest: nothing is removed: %s",
            one_sentence(error),
            extra=fields("ingest_not_removed", reason=error),
        )


def _remove(
    log: IngestLog,
    states: Sequence[str],
    stop: Callable[[], bool] = lambda: False,
    *,
    quiet: bool = False,
) -> None:
    from rechannel.ingest.retention import remove_read

    removal = remove_read(log, states, stop)
    if removal.files or not quiet:
        say(
            f"removed {count(removal.files)} files: read up to {count(removal.read)}, removed up to"
            f" {count(removal.through)}"
        )


def _token(file: Path | None) -> str | None:
    """The token of a file, or of the environment; None if there is none. Raises RefusedError."""
    if file is None:
        return os.environ.get(TOKEN) or None
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"the token cannot be read from {file}: {error}") from error
    if not token:
        raise RefusedError(f"{file} is empty: write a token into it")
    return token
