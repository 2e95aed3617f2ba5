"""`rechannel run`: run the job of a Python file until it is stopped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from rechannel.cli.failure_log import printed_once
from rechannel.cli.options import InProcessOption, Target
from rechannel.cli.remote.client import TokenOption, token_of
from rechannel.cli.remote.values import seconds
from rechannel.cli.screen import count
from rechannel.cli.signals import Asked, ending_at_once, to_main_thread
from rechannel.errors import NotReadyError, RechannelError, StateInUseError

if TYPE_CHECKING:
    from rechannel.cli.jobs.live import Watcher
    from rechannel.exporting.opentelemetry import OpenTelemetry
    from rechannel.job import Job
    from rechannel.running import RunningJob, Server

_POLL_SECONDS = 0.2
_EXPORT_SECONDS = 5.0
"""How long the command waits for providers of OpenTelemetry at its end."""


def run(  # noqa: PLR0913, PLR0917 - the options of the command
    target: Target,
    takeover: Annotated[
        bool, typer.Option(help="Fence a driver that still runs on the state directory.")
    ] = False,
    standby: Annotated[
        bool,
        typer.Option(
            "--standby",
            help="Wait while another driver runs on the state directory, and take its place when it has ended.",
        ),
    ] = False,
    fresh: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE",
            help="A new source that shall be read from its beginning. May be repeated.",
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A source, a sink in quarantine, or an operator at an upgrade, to give up. May be repeated.",
        ),
    ] = None,
    upgrade: Annotated[
        bool,
        typer.Option(
            "--upgrade", help="Take over from another program and its state; see `upgrade`."
        ),
    ] = False,
    revert: Annotated[
        bool,
        typer.Option("--revert", help="Deliberately go back to the program before a live change."),
    ] = False,
    remove_later_output: Annotated[
        bool,
        typer.Option(
            "--remove-later-output",
            help="Remove output of later timesteps than this state directory has.",
        ),
    ] = False,
    replan: Annotated[
        bool, typer.Option("--replan", help="Plan uncommitted timesteps anew.")
    ] = False,
    mended: Annotated[
        bool,
        typer.Option("--mended", help="The functions of migrations replace those that failed."),
    ] = False,
    until_idle: Annotated[
        bool, typer.Option(help="Stop when all present input is processed.")
    ] = False,
    in_process: InProcessOption = False,
    serve: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Answer HTTP requests at this address; see `reconfigure`."
        ),
    ] = None,
    token: TokenOption = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE",
            help="A module whose functions and controllers requests may name. May be repeated.",
        ),
    ] = None,
    programs: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PLACE",
            help="A file or directory of programs that requests may deploy; see `deploy`. May be repeated.",
        ),
    ] = None,
    opentelemetry: Annotated[
        bool,
        typer.Option(
            "--opentelemetry",
            help="Export metrics and traces to the global providers of OpenTelemetry.",
        ),
    ] = False,
    stop_timeout: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Longest time that a stop may take, such as 30s or 2min."
        ),
    ] = "10min",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object per timestep.")
    ] = False,
) -> None:
    """Run the `rc.Job` of a Python file.

    Ctrl-C (or SIGTERM) finishes the timesteps in flight, publishes them and ends. A second one ends
    at once, and loses nothing either. `spark-submit` takes the file that `rechannel --launcher`
    names in place of this command.
    """
    from rechannel.cli.jobs.live import Watcher
    from rechannel.cli.program import find_job, load, split_target
    from rechannel.exporting.opentelemetry import OpenTelemetry
    from rechannel.job import InProcess

    most = seconds(stop_timeout)
    exports = OpenTelemetry() if opentelemetry else None
    file, name = split_target(target)
    with ending_at_once():
        job = find_job(load(file), name)
    with Watcher(json=as_json) as watcher, Asked() as signals, _heard_by_jvm(), printed_once():
        watcher.say(f"starting job {job.name!r}")
        start = partial(
            job.start,
            takeover=takeover,
            revert=revert,
            upgrade=upgrade,
            remove_later_output=remove_later_output,
            fresh=fresh or (),
            without=without or (),
            replan=replan,
            mended=mended,
            allow=allow or (),
            in_process=InProcess() if in_process else None,
        )
        # The driver that a standby waits for may have the address still.
        if serve is not None and not standby:
            _check_served(serve)
        running = _in_turn(job, start, watcher, signals.asked) if standby else start()
        if running is None:
            return
        signals.listen()  # again: Spark installs its own handler when a session is made
        with (
            _heard_by_jvm(),
            _exported(running, exports),
            _served(
                running,
                serve,
                token,
                allow or (),
                programs or (),
                asked=signals.asked,
                most=most,
            ) as server,
        ):
            if server is not None:
                left = f" (token: {server.token_file})" if server.token_file else ""
                watcher.say(f"serving it at {server.url}{left}")
            _follow(running, watcher, signals.asked, until_idle=until_idle, most=most)
    missed = f", and {count(watcher.missed)} more that were not followed" if watcher.missed else ""
    watcher.say(
        f"job {running.name!r} stopped after {watcher.seconds:,.1f} s:"
        f" {count(watcher.timesteps)} timesteps, {count(watcher.rows)} rows{missed}"
    )


@contextmanager
def _exported(running: RunningJob, to: OpenTelemetry | None) -> Iterator[None]:
    """Export the job if that is asked for; the providers have all of it when the command ends."""
    exporting = None if to is None else running.export(to)
    try:
        yield
    finally:
        if exporting is not None:
            exporting.join(_EXPORT_SECONDS)


def _in_turn(
    job: Job, start: Callable[[], RunningJob], watcher: Watcher, asked: Event
) -> RunningJob | None:
    """Start the job when no other driver runs it; None if it was asked to end before that."""
    while job.stand_by(asked.is_set, watcher.say):
        with suppress(StateInUseError):  # another driver that stood by was faster
            return start()
        asked.wait(_POLL_SECONDS)
    return None


def _check_served(address: str) -> None:
    """Raise RefusedError, before anything has begun, if a job cannot be served at an address."""
    from rechannel.serve.address import listen, split_address

    listen(*split_address(address)).close()


@contextmanager
def _served(
    running: RunningJob,
    address: str | None,
    token: str | None,
    allow: Sequence[str],
    programs: Sequence[str],
    *,
    asked: Event,
    most: float,
) -> Iterator[Server | None]:
    """Serve the job if an address is given; stop it if that fails.

    asked: set when the command shall end; if the job ends by itself, its clients learn that first. most: seconds that
    it may take to stop.
    """
    from rechannel.serve.address import split_address

    server = None
    try:
        if address is not None:
            host, port = split_address(address)
            server = running.serve(host, port, token_of(token), allow, programs)
    except Exception:
        running.stop(most)
        raise
    with server or nullcontext():
        try:
            yield server
        finally:
            if server is not None and not asked.is_set():
                server.linger()


def _follow(
    running: RunningJob, watcher: Watcher, asked: Event, *, until_idle: bool, most: float
) -> None:
    """Show progress until the job shall end, and end it.

    asked: set when it shall. most: seconds that ending may take. Raises the error of the job, NotReadyError if it
    takes longer.
    """
    try:
        while not asked.is_set() and not (until_idle and _is_idle(running)):
            watcher.look(running)
            if not until_idle and running.await_termination(_POLL_SECONDS):
                break
        if asked.is_set():
            watcher.say(
                "stopping: finishing and publishing the timesteps in flight; a second signal ends at once"
            )
    except SystemExit:  # the reader of the output has gone
        running.stop(most)
        raise
    running.stop(most)
    watcher.look(running)


def _is_idle(running: RunningJob) -> bool:
    try:
        running.process_all_available(_POLL_SECONDS)
    except NotReadyError:
        return False
    except RechannelError:
        running.await_termination()  # the last facts of the failure are written by then
        raise
    return True


@contextmanager
def _heard_by_jvm() -> Iterator[None]:
    """Signals to the JVM of a session reach this process."""
    if "pyspark" not in sys.modules:
        yield
        return
    from rechannel.engine.spark.session.signals import passed_on

    with passed_on(to_main_thread):
        yield
