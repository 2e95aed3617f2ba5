"""Commands of `rechannel` in processes of their own, each of which can be killed at one of its writes.

A process that has imported everything once forks one per command, which takes a fraction of the time of a start.

A write is what changes a directory or opens a file for writing, whichever code does it, but for code that asks the
operating system without Python. To die before a write is to die after the one before it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_OPEN = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_IMPORTED = (
    "pandas",
    "pyspark.cloudpickle",
    "rechannel.cli.jobs.live",
    "rechannel.cli.program",
    "rechannel.cli.run",
    "rechannel.cli.upgrade",
    "rechannel.serve",
    "tests.support.edited_files",
    "typer.main",
)
_CHANGES = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command. below: a folder. at: the write below it, from 1, before which the command is killed; 0 = none.

    armed: a file; writes count from when it is there. out: a file that gets what the command says. counted: one that
    gets how many writes there were, if it was not killed."""

    arguments: tuple[str, ...]
    below: str
    out: str
    counted: str
    at: int = 0
    armed: str = "/"


class Killed:
    """Counts the writes of this process, and kills it at one."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.count = 0
        self.lock = threading.Lock()

    def __call__(self, event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            if not isinstance(given[2], int) or not given[2] & _OPEN:
                return
        elif event not in _CHANGES:
            return
        path = given[0]
        if isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self.command.below):
            self.note()

    def note(self) -> None:
        """Count a write."""
        if not os.access(self.command.armed, os.F_OK):
            return
        with self.lock:
            self.count += 1
            if self.count == self.command.at:
                os.kill(os.getpid(), signal.SIGKILL)


class Commands:
    """The process that forks one per command."""

    def __init__(self) -> None:
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )

    def begin(self, command: Command) -> int:
        """Start a command; return the id of its process."""
        return self._asked(asdict(command))

    def end(self, pid: int) -> int:
        """Wait for a command; return its exit code, which is negative if a signal has ended it."""
        return self._asked([pid, 0])

    def has_ended(self, pid: int) -> bool:
        """Return whether a command has ended; `end` returns its exit code then."""
        return bool(self._asked([pid, os.WNOHANG | os.WNOWAIT]))

    def _asked(self, question: Any) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self) -> None:
        """End it."""
        with self.process:
            assert self.process.stdin is not None
            self.process.stdin.close()


@contextmanager
def commands() -> Iterator[Commands]:
    """Yield a process that forks one per command."""
    made = Commands()
    try:
        yield made
    finally:
        made.close()


def _carry_out(command: Command) -> int:
    """Run a command in this process, which belongs to it."""
    from rechannel.cli import main

    killed = Killed(command)
    with Path(command.out).open("w") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    sys.argv[1:] = command.arguments
    sys.addaudithook(killed)
    try:
        main()
        code = 0
    except SystemExit as error:
        code = int(error.code or 0)
    sys.stdout.flush()
    sys.stderr.flush()
    Path(command.counted).write_text(str(killed.count))
    return code


def _waited(pid: int, options: int) -> int:
    if options:
        return int(os.waitid(os.P_PID, pid, options | os.WEXITED) is not None)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _serve() -> None:
    """Fork a process for each command that is asked for."""
    for name in _IMPORTED:
        import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        question = json.loads(line)
        if isinstance(question, list):
            answer = _waited(*question)
        elif not (answer := os.fork()):
            os._exit(_carry_out(Command(**question)))
        answers.write(f"{answer}\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
