"""A process that listens on loopback, and object stores as one kind of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from tests.real.components.kafka import free_port

READY_S = 120.0


class StateServer(Protocol):
    """Something on other hosts that keeps state."""

    def url(self, folder: str) -> str:
        """Return the address of a folder."""

    def environment(self) -> dict[str, str]:
        """Return what clients find it by."""

    def start(self) -> None:
        """Start it, and wait until it answers."""

    def vanish(self) -> None:
        """End it in the middle of its requests, as suddenly as what it keeps outlives."""

    def close(self) -> None:
        """End it for good."""


class Server(ABC):
    """One process with a folder of its own, which outlives it."""

    def __init__(self, folder: Path) -> None:
        """folder: for data and log."""
        self._folder, self._own_port = folder, free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        """To which clients are sent."""
        return self._own_port

    @abstractmethod
    def command(self) -> list[str]:
        """Return what is run."""

    def variables(self) -> dict[str, str]:
        """Return its environment variables, beside those of this process."""
        return {}

    def start(self) -> None:
        """Start it, and wait until it listens."""
        command = self.command()
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **self.variables()},
                cwd=self._folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
        deadline = time.monotonic() + READY_S
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = (self._folder / "log").read_text(errors="replace")[-3_000:]
                self.kill()
                raise RuntimeError(f"{command[0]} did not start:\n{said}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Take it away, as a loss of power does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Have it end orderly."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(30)
        self._process = None

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._own_port), 1):
            return True
        return False


class ObjectServer(Server):
    """An object store with the bucket `state`."""

    scheme: str
    """Of its URLs."""

    def url(self, folder: str) -> str:
        """Return the address of a folder."""
        return f"{self.scheme}://state/{folder}"

    @abstractmethod
    def environment(self, port: int | None = None) -> dict[str, str]:
        """Return what clients find it by. port: of a proxy in front of it."""

    def vanish(self) -> None:
        """End it in the middle of its requests, as suddenly as its objects outlive."""
        self.kill()

    def close(self) -> None:
        """End it for good."""
        self.kill()
