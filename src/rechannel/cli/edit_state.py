"""`rechannel edit-state`: the state of an operator of a job that does not run, made anew by a function."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Annotated, Any

import typer

from rechannel.cli.options import AllowOption, InProcessOption, JsonOption, Target
from rechannel.cli.screen import show, show_json
from rechannel.errors import RefusedError


def edit_state(  # noqa: PLR0913, PLR0917 - the options of the command
    target: Target,
    operator: Annotated[str, typer.Argument(metavar="OPERATOR", help="Name of the operator.")],
    function: Annotated[
        str,
        typer.Argument(
            metavar="FUNCTION",
            help="Of an Arrow table: a function of FILE, or MODULE:FUNCTION.",
        ),
    ],
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Who asks and why, for the history.")
    ] = "",
    plan: Annotated[bool, typer.Option("--plan", help="Only show what would be done.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Make an edit once more that was made already.")
    ] = False,
    allow: AllowOption = None,
    in_process: InProcessOption = False,
    as_json: JsonOption = False,
) -> None:
    """Let a function make the state of an operator anew. No driver may run.

    It is given the rows as `rechannel state` shows them, as an Arrow table, and returns those that take
    their place. `--plan` shows how many rows it changes, adds and removes. The reason is needed to do it.
    """
    from rechannel.cli.program import find_job, load, split_target
    from rechannel.job import InProcess

    if not (plan or reason):
        msg = "an edit needs a --reason, which the history keeps; --plan shows what it would do"
        raise RefusedError(msg)
    file, name = split_target(target)
    module = load(file)
    job = find_job(module, name)
    found = job.edit_state(
        operator,
        function_of(module, function),
        reason=reason,
        plan=plan,
        again=again,
        allow=allow or (),
        in_process=InProcess() if in_process else None,
    )
    if as_json:
        show_json(found.to_dict())
    else:
        show(f"{found}.")


def function_of(program: ModuleType, path: str) -> Any:
    """Return a function of the program's file, or of a module. Raises RefusedError."""
    name, colon, attribute = path.rpartition(":")
    try:
        module = importlib.import_module(name) if colon else program
    except (ImportError, ValueError, TypeError) as error:  # of a name that is empty, or relative
        msg = f"{path}: there is no module {name!r} ({error}): give a function of FILE, or MODULE:FUNCTION"
        raise RefusedError(msg) from error
    found = getattr(module, attribute, None)
    if not callable(found):
        msg = f"{path}: {module.__file__} has no function {attribute!r}"
        raise RefusedError(msg)
    return found
