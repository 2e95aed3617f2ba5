"""All commands, and how they end.

Exit codes: 0 success; 1 the answer is bad (files are damaged, results differ); 2 failure, with one message on standard
error; 3 (`main`) an unexpected error, with a traceback; 4 the wait of a command has timed out, and what it waits for
continues; 130, 143 ended by SIGINT or SIGTERM, without having ended by itself.
"""

from __future__ import annotations

import errno
import platform
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from typer.main import get_command

from rechannel.cli.bench import bench
from rechannel.cli.demo import demo
from rechannel.cli.edit_state import edit_state
from rechannel.cli.explain import explain
from rechannel.cli.fork import fork
from rechannel.cli.ingest import ingest
from rechannel.cli.jobs.abort import abort
from rechannel.cli.jobs.advice import advice
from rechannel.cli.jobs.control import control
from rechannel.cli.jobs.controllers import controllers
from rechannel.cli.jobs.deploy import deploy
from rechannel.cli.jobs.events import events
from rechannel.cli.jobs.history import history
from rechannel.cli.jobs.plan import plan
from rechannel.cli.jobs.reconfigure import reconfigure
from rechannel.cli.jobs.status import status
from rechannel.cli.jobs.watch import watch
from rechannel.cli.profile import profile
from rechannel.cli.repair import repair
from rechannel.cli.replay import replay
from rechannel.cli.replay_dead_letters import replay_dead_letters
from rechannel.cli.reset import reset
from rechannel.cli.run import run
from rechannel.cli.savepoint import savepoint, savepoints
from rechannel.cli.scale import scale
from rechannel.cli.screen import complain
from rechannel.cli.sql import sql
from rechannel.cli.state import state
from rechannel.cli.ui import ui
from rechannel.cli.upgrade import upgrade
from rechannel.cli.verify import verify
from rechannel.errors import RechannelError
from rechannel.version import __version__

FAILED = 2
"""Exit code of a command that failed."""

app = typer.Typer(
    name="rechannel",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(
            f"rechannel {__version__} (Python {platform.python_version()}, Spark {_spark()})"
        )
        raise typer.Exit


def _show_launcher(wanted: bool) -> None:
    if wanted:
        from rechannel.cli import launcher

        typer.echo(launcher.__file__)
        raise typer.Exit


def _spark() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return "not installed"


@app.callback()
def rechannel(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    show_launcher: Annotated[
        bool,
        typer.Option(
            "--launcher",
            callback=_show_launcher,
            is_eager=True,
            help="Show the file that spark-submit takes in place of this command.",
        ),
    ] = False,
) -> None:
    """Streaming dataflows on Apache Spark that can be changed while they run."""


app.command("demo")(demo)
app.command("run")(run)
app.command("explain")(explain)
app.command("upgrade")(upgrade)
app.command("deploy")(deploy)
app.command("reset")(reset)
app.command("ingest")(ingest)
app.command("status")(status)
app.command("state")(state)
app.command("edit-state")(edit_state)
app.command("sql")(sql)
app.command("events")(events)
app.command("verify")(verify)
app.command("repair")(repair)
app.command("replay")(replay)
app.command("replay-dead-letters")(replay_dead_letters)
app.command("savepoint")(savepoint)
app.command("savepoints")(savepoints)
app.command("fork")(fork)
app.add_typer(reconfigure, name="reconfigure")
app.add_typer(plan, name="plan")
app.command("history")(history)
app.command("abort")(abort)
app.command("controllers")(controllers)
app.add_typer(control, name="control")
app.command("advice")(advice)
app.command("watch")(watch)
app.command("ui")(ui)
app.command("profile")(profile)
app.command("scale")(scale)
app.command(
    "bench",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(bench)


@cache
def _command() -> Any:
    """The command line, made once: `app` would make it anew at each call."""
    return get_command(app)


def execute(argv: Sequence[str]) -> int:
    """Run a command line (without the program's name) and return its exit code."""
    try:
        _command()(args=list(argv), prog_name="rechannel")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except RechannelError as error:
        complain(error)
        return FAILED
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        complain(error)  # most often that of standard output
        return FAILED
    return 0
