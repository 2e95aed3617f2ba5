"""An application that is run, and whose event log is read when it has ended."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from rechannel.cli.screen import say
from rechannel.errors import RefusedError
from rechannel.profiling.spark.launch import (
    Launch,
    launch,
    marked_logs,
    properties,
    properties_file,
)

_FORWARDED = ("SIGTERM", "SIGHUP")


def run_and_report(plan_in: Callable[[Path], Launch], report: Callable[[Path], int]) -> int:
    """Run a command, report on its event log, and return its exit code.

    plan_in: returns the command; its argument is a directory for the log. report: shows the report; its result is
    returned if the application succeeded. A report that fails adds a line to standard error and changes no
    exit code. Raises RefusedError if the command cannot be started.
    """
    with TemporaryDirectory(prefix="rechannel-log-") as own:
        plan = plan_in(Path(own))
        code = _run(plan)
        try:
            log = _log(plan)
            verdict = 0 if log is None else report(log)
        except (
            Exception
        ) as error:  # the application's result counts, whatever happens to the report
            say(f"no report: {error}")
            verdict = 0
    return code or verdict


def planned(command: Sequence[str], own: Path) -> Launch:
    """Return how a command is run. own: where its event log goes if the user wants none elsewhere.

    Raises RefusedError if its properties file cannot be read.
    """
    environment = dict(os.environ)
    file = properties_file(command, environment)
    try:
        text = "" if file is None else file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        msg = f"the properties file {file} cannot be read: {error.strerror or error}"
        raise RefusedError(msg) from error
    return launch(command, environment, properties(text), own=own, mark=uuid4().hex)


def _run(plan: Launch) -> int:
    """Run it to its end, and return its exit code as a shell has it: 128 and the signal that ended it."""
    try:
        process = subprocess.Popen(plan.command, env=dict(plan.environment))
    except OSError as error:
        msg = f"{plan.command[0]!r} cannot be run: {error.strerror or error}"
        raise RefusedError(msg) from error
    with _signals_for(process):
        code = process.wait()
    return 128 - code if code < 0 else code


@contextmanager
def _signals_for(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Leave Ctrl-C to the application, which gets it as well, and pass on the request to end."""
    before = {signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None)}
    for name in _FORWARDED:
        number = getattr(signal, name, None)
        if number is not None:
            before[number] = signal.signal(number, lambda sent, _: process.send_signal(sent))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _log(plan: Launch) -> Path | None:
    """Return the log that was written; None, and say why, if there is none here."""
    if plan.directory is None:
        say(
            f"no report: the event log is in {plan.where}; profile a copy of it with `rechannel profile`"
        )
        return None
    logs = marked_logs(plan.directory, plan.mark)
    if not logs:
        say(
            f"no report: there is no event log of this run in {plan.where}. The command started no Spark application on"
            " this machine, or the program sets spark.eventLog.* itself"
        )
        return None
    if len(logs) > 1:
        say(
            f"note: {len(logs)} applications were run; this is about the one with the largest log, {logs[0].name}"
        )
    return logs[0]
