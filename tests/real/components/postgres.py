"""A real PostgreSQL server on loopback, from the binaries that a Maven package brings."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import tarfile
import tempfile
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

from tests.real.components.jars import resolved
from tests.real.components.kafka import free_port

VERSION = "18.1.0"
READY_S = 30.0
NOBODY = "nobody"
"""Who runs the server where the tests run as root, which it refuses."""
_ONE_AT_A_TIME = threading.Lock()


def binaries() -> Path:
    """Return the folder with bin/, lib/ and share/."""
    kind = {"x86_64": "amd64", "aarch64": "arm64v8"}[platform.machine()]
    name = f"embedded-postgres-binaries-linux-{kind}"
    folder = resolved("postgres", f"io.zonky.test.postgres:{name}:{VERSION}")
    there = folder / "server"
    with _ONE_AT_A_TIME:
        if not there.exists():
            _unpack(folder, there)
    return there


def _unpack(folder: Path, there: Path) -> None:
    making = folder / f".server-{os.getpid()}"
    with zipfile.ZipFile(next(folder.glob("*.jar"))) as jar:
        (archive,) = (each for each in jar.namelist() if each.endswith(".txz"))
        with jar.open(archive) as packed, tarfile.open(fileobj=packed, mode="r:xz") as files:
            files.extractall(making, filter="data")
    try:
        making.rename(there)
    except OSError:
        shutil.rmtree(making)  # another process was faster


class Postgres:
    """One server with a database. Its data outlive a kill."""

    def __init__(self) -> None:
        """Prepare a folder that belongs to the user who runs the server, wherever the tests keep theirs."""
        self._folder = Path(tempfile.mkdtemp(prefix="rechannel-postgres-"))
        self._data, self._log = self._folder / "data", self._folder / "log"
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._programs = binaries() / "bin"
        self._user = NOBODY if os.getuid() == 0 else None
        if self._user:  # others may not look into folders of root
            copied = self._folder / "server"
            shutil.copytree(binaries(), copied, symlinks=True)
            self._programs = copied / "bin"
            shutil.chown(self._folder, self._user)

    @property
    def url(self) -> str:
        """Its address."""
        return f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        if not self._data.exists():
            command = ["initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust"]
            self._run(*command, "--no-sync", "--no-locale", "-E", "UTF8")
        options = ["-h", "127.0.0.1", "-p", str(self._port), "-k", ""]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *options],
                user=self._user,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + READY_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start:\n{self._log.read_text()[-3_000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Take its processes away, as a loss of power does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Have it end orderly, without waiting for clients."""
        self._end(signal.SIGINT)

    def remove(self) -> None:
        """Take it away with its data."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        import adbc_driver_postgresql.dbapi as driver

        with driver.connect(self.url, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def _answers(self) -> bool:
        try:
            return self.ask("SELECT 1") == [(1,)]
        except Exception:
            return False

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(30)
            self._process = None

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments],
            user=self._user,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed:\n{done.stdout}\n{done.stderr}")
