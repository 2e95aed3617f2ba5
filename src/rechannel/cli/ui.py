"""`rechannel ui`: the page of a job, from its state directory."""

from __future__ import annotations

from typing import Annotated

import typer

from rechannel.cli.options import StateTarget
from rechannel.cli.remote.client import TokenOption, is_url, token_of
from rechannel.cli.screen import say, show
from rechannel.cli.signals import Asked
from rechannel.errors import RechannelError, RefusedError

_POLL_SECONDS = 0.2


def ui(
    directory: StateTarget,
    host: Annotated[str, typer.Option(help="Address to answer at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8522,
    token: TokenOption = None,
) -> None:
    """Show a job as a page for a browser, from its state directory: it may have ended, or run.

    Nothing can be changed there. The page of a served job, on which it can, is at the address of `job.serve()`. Ctrl-C
    (or SIGTERM) ends it. Neither Spark nor the job's program is needed.
    """
    if is_url(directory):
        msg = f"{directory} serves its page itself: open it in a browser; `rechannel ui` takes a state directory"
        raise RefusedError(msg)
    from rechannel.cli.inspect.directory import open_directory
    from rechannel.cli.inspect.watched import Saved
    from rechannel.serve.watched_server import serve_watched

    given = token_of(token)
    server = serve_watched(Saved(open_directory(directory)), host=host, port=port, token=given)
    with Asked() as signals, server:
        show(f"The page of {directory} is at {server.url}")
        if given is None:
            show(f"Its token is in {server.token_file}")
        while server.is_open and not signals.asked.wait(_POLL_SECONDS):
            pass
        if not signals.asked.is_set():
            raise RechannelError("the server has ended by itself; see its log")
    say("stopped")
