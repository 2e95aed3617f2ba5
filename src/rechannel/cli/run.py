"""`rechannel run`: run the job of a Python file until it is told to stop."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from rechannel.cli.remote.client import TokenOption, token_of
from rechannel.cli.remote.values import seconds
from rechannel.cli.screen import count
from rechannel.errors import NotReadyError, RechannelError

if TYPE_CHECKING:
    from rechannel.cli.live import Watcher
    from rechannel.running import RunningJob, Server

_POLL_SECONDS = 0.2


def run(  # noqa: PLR0913, PLR0917 - the options of the command
    target: Annotated[
        str, typer.Argument(metavar="FILE[:name]", help="A Python file, and its variable.")
    ],
    takeover: Annotated[
        bool, typer.Option(help="Fence a driver that still runs on the state directory.")
    ] = False,
    fresh: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE", help="A new source that is meant to begin; repeatable."),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A source, or a sink in quarantine, that is given up; repeatable."
        ),
    ] = None,
    revert: Annotated[
        bool,
        typer.Option("--revert", help="This is the program of before a live change, on purpose."),
    ] = False,
    remove_later_output: Annotated[
        bool,
        typer.Option(
            "--remove-later-output",
            help="Remove output of timesteps that this state directory has not come to.",
        ),
    ] = False,
    replan: Annotated[
        bool, typer.Option("--replan", help="Plan timesteps anew that could not be committed.")
    ] = False,
    mended: Annotated[
        bool,
        typer.Option(
            "--mended", help="Functions of migrations take the place of those that failed."
        ),
    ] = False,
    until_idle: Annotated[
        bool, typer.Option(help="Stop when all input that is there is processed.")
    ] = False,
    in_process: Annotated[
        bool, typer.Option(help="Without Spark, in this process: Arrow-level operators only.")
    ] = False,
    serve: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Answer HTTP requests there: see `reconfigure`."),
    ] = None,
    token: TokenOption = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE", help="Requests may name its functions. Repeatable."),
    ] = None,
    stop_timeout: Annotated[
        str, typer.Option(metavar="TIME", help="How long a stop takes at most, as 30s or 2min.")
    ] = "10min",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object per timestep.")
    ] = False,
) -> None:
    """Run the `rc.Job` of a Python file.

    Ctrl-C (or SIGTERM) finishes the timesteps under way, publishes them and ends; a second one ends
    at once, which loses nothing either.
    """
    from rechannel.cli.live import Watcher
    from rechannel.cli.program import find_job, load, split_target
    from rechannel.job import InProcess

    most = seconds(stop_timeout)
    file, name = split_target(target)
    job = find_job(load(file), name)
    with Watcher(json=as_json) as watcher:
        watcher.say(f"starting job {job.name!r}")
        running = job.start(
            takeover=takeover,
            revert=revert,
            remove_later_output=remove_later_output,
            fresh=fresh or (),
            without=without or (),
            replan=replan,
            mended=mended,
            in_process=InProcess() if in_process else None,
        )
        with _served(running, serve, token, allow or ()) as server:
            if server is not None:
                left = f" (token: {server.token_file})" if server.token_file else ""
                watcher.say(f"serving it at {server.url}{left}")
            _follow(running, watcher, until_idle=until_idle, most=most)
    watcher.say(
        f"job {running.name!r} stopped after {watcher.seconds:,.1f} s:"
        f" {count(watcher.timesteps)} timesteps, {count(watcher.rows)} rows"
    )


@contextmanager
def _served(
    running: RunningJob, address: str | None, token: str | None, allow: Sequence[str]
) -> Iterator[Server | None]:
    """The job, served where that was asked for; stopped if it cannot be."""
    if address is None:
        yield None
        return
    from rechannel.serve.address import split_address

    try:
        host, port = split_address(address)
        server = running.serve(host, port, token_of(token), allow)
    except RechannelError:
        running.stop()
        raise
    with server:
        yield server


def _follow(running: RunningJob, watcher: Watcher, *, until_idle: bool, most: float) -> None:
    """Show progress until the job is to end, and end it.

    most: seconds that the end may take. Raises what the job failed with, NotReadyError where it takes longer.
    """
    # Only now: Spark takes the signal for itself when a session is made.
    with _asked_to_stop() as asked:
        while not asked.is_set() and not (until_idle and _is_idle(running)):
            watcher.look(running)
            if not until_idle and running.await_termination(_POLL_SECONDS):
                break
        if asked.is_set():
            watcher.say(
                "stopping: what is under way is finished and published; a second signal ends at once"
            )
        running.stop(most)
        watcher.look(running)


def _is_idle(running: RunningJob) -> bool:
    try:
        running.process_all_available(_POLL_SECONDS)
    except NotReadyError:
        return False
    except RechannelError:
        running.await_termination()  # what it has to tell of the failure is written then
        raise
    return True


@contextmanager
def _asked_to_stop() -> Iterator[Event]:
    """An event that the first SIGINT or SIGTERM sets; the second one ends the process."""
    asked = Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        signal.signal(number, signal.SIG_DFL)
        asked.set()

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
