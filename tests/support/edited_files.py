"""The edits of `text_edits` as files, and what commands do with them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import rechannel as rc
from rechannel.engine.journal.reading import read_only
from rechannel.engine.journal.state import JournalState
from rechannel.state.stores.local import LocalStore
from tests.support.input_files import put_parquet
from tests.support.killed import Command, Commands
from tests.support.text_edits import EDITS, FIRST, QUIET, Edit

_PATIENCE_S = 300
_TEXT = """
from pathlib import Path

from tests.support.edited_files import job_of

job = job_of({name!r}, {which!r}, Path({place!r}))
"""


def job_of(name: str, which: str, place: Path) -> rc.Job:
    """Return the job of an edit, with files in a folder. which: its `old` text, its `new` one, or the new one `bare` of
    what it declares."""
    edit = EDITS[name]
    flows = (edit.old if which == "old" else edit.new)(place)
    declared = dict(edit.said) if which == "new" else {}
    declared.pop("without", None)
    return rc.Job("edited", flows, state=place / "state", settings=QUIET, **declared)


@dataclass(frozen=True)
class Service:
    """A folder with the input, the state and the output of a job, and one file with its program."""

    root: Path
    name: str
    commands: Commands

    @property
    def edit(self) -> Edit:
        return EDITS[self.name]

    @property
    def file(self) -> Path:
        return self.root / "program" / "job.py"

    @property
    def without(self) -> list[str]:
        return [word for name in self.edit.said.get("without", ()) for word in ("--without", name)]

    @property
    def state(self) -> JournalState:
        return read_only(LocalStore(self.root / "state"))

    def bring(self, which: str) -> None:
        """Bring a text of the edit to where the service starts it."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        text = _TEXT.format(name=self.name, which=which, place=str(self.root))
        self.file.write_text(text)

    def feed(self, number: int, rows: list[dict[str, Any]]) -> None:
        """Rows arrive, as a file."""
        feed(self.root, number, rows)

    def begin(self) -> None:
        """Run the old text over the first rows, bring the new one, and keep what is there then."""
        self.bring("old")
        self.feed(1, FIRST)
        self.run("run", "--until-idle")
        self.bring("new")
        shutil.copytree(self.root, self._beside("kept"))

    def again(self) -> None:
        """Go back to what `begin` has left."""
        shutil.rmtree(self.root)
        shutil.copytree(self._beside("kept"), self.root)

    @property
    def writes(self) -> int:
        """How many writes the last command has made that was not killed."""
        return int(self._beside("writes").read_text())

    @property
    def told(self) -> str:
        """What the last command has said."""
        return self._beside("told").read_text()

    def run(self, command: str, *arguments: str, at: int = 0, code: int = 0) -> bool:
        """Run a command with the program to its end; return False if it was killed. at: the write at which that is."""
        ended = self.commands.end(
            self._begin(command, str(self.file), "--in-process", *arguments, at=at)
        )
        if at and ended == -signal.SIGKILL:
            return False
        assert ended == code, self.told
        return True

    @contextmanager
    def served(self, at: int = 0) -> Iterator[Served]:
        """Yield a job that runs. at: the write at which it is killed, of those after `arm`."""
        self._armed.unlink(missing_ok=True)
        served = ["--upgrade", "--serve", "127.0.0.1:0", "--programs", str(self.file.parent)]
        pid = self._begin(
            "run", str(self.file), "--in-process", *served, at=at, armed=str(self._armed)
        )
        try:
            told = wait_for(lambda: re.search(r"http://[0-9.:]+[0-9]", self.told))
            yield Served(url=told[0], pid=pid, service=self)
        finally:
            os.kill(pid, signal.SIGTERM)
            self.commands.end(pid)

    def arm(self) -> None:
        """Writes count from now on."""
        self._armed.touch()

    def published(self) -> dict[str, list[dict[str, Any]]]:
        """Return the rows that readers see, by folder of a sink, in the order of timesteps."""
        found: dict[str, list[dict[str, Any]]] = {}
        for folder in sorted(self.root.glob("*/timestep=*")):
            tables = [pq.read_table(file, partitioning=None) for file in folder.glob("*.parquet")]
            rows = [row for table in tables for row in table.to_pylist()]
            found.setdefault(folder.parent.name, []).extend(sorted(rows, key=repr))
        return found

    def found(self) -> dict[str, dict[Any, dict[str, Any]]]:
        """Start the new text as a service does, and return the state of the operators of the edit."""
        job = job_of(self.name, "new", self.root).start(in_process=rc.InProcess())
        try:
            return state_of(job, self.edit)
        finally:
            job.stop()

    @property
    def _armed(self) -> Path:
        return self._beside("armed")

    def _begin(self, *arguments: str, at: int = 0, armed: str = "/", said: str = "told") -> int:
        self._beside(said).write_text("")
        asked = Command(
            arguments=arguments,
            below=f"{self.root}/",
            out=str(self._beside(said)),
            counted=str(self._beside("writes")),
            at=at,
            armed=armed,
        )
        return self.commands.begin(asked)

    def _beside(self, what: str) -> Path:
        return self.root.with_name(f"{self.root.name}-{what}")


@dataclass(frozen=True, kw_only=True)
class Served:
    """A job that runs, and answers at a URL."""

    url: str
    pid: int
    service: Service

    @property
    def ended(self) -> bool:
        return self.service.commands.has_ended(self.pid)

    def deploy(self) -> int:
        """Deploy the program's file; return the exit code."""
        service = self.service
        arguments = [self.url, str(service.file), "--wait", *service.without]
        return service.commands.end(service._begin("deploy", *arguments, said="answered"))

    @property
    def answer(self) -> str:
        """What the last deploy has said."""
        return self.service._beside("answered").read_text()


def feed(place: Path, number: int, rows: list[dict[str, Any]]) -> None:
    """Write rows to a file of the input in a folder."""
    (place / "in").mkdir(parents=True, exist_ok=True)
    put_parquet(place / "in" / f"{number}.parquet", pa.Table.from_pylist(rows))


def state_of(job: Any, edit: Edit) -> dict[str, dict[Any, dict[str, Any]]]:
    """Return the state of the operators of an edit, by key. job: a running one, or what a batch gave."""
    tables = {name: job.state(name) for name in edit.state or ()}
    return {
        name: {row.pop(table.column_names[0]): row for row in table.to_pylist()}
        for name, table in tables.items()
    }


def wait_for(look: Any) -> Any:
    """Look until there is something, and return it."""
    until = time.monotonic() + _PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < until, "nothing came"
        time.sleep(0.02)
    return found
