"""A real Prometheus on loopback, with promtool: from the path, or from a Debian package that is only unpacked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.real.components.making import FOLDER
from tests.real.components.server import READY_S, Server

PACKAGE = "prometheus"
_ONE_AT_A_TIME = threading.Lock()


def programs() -> Path:
    """Return the folder with `prometheus` and `promtool`. Raises RuntimeError where there is no Debian to ask."""
    found = shutil.which("promtool")
    if found and shutil.which("prometheus"):
        return Path(found).parent
    folder = FOLDER / PACKAGE
    with _ONE_AT_A_TIME:
        if not folder.exists():
            _unpack(folder)
    return folder / "usr" / "bin"


def _unpack(folder: Path) -> None:
    making = FOLDER / f".{PACKAGE}-{os.getpid()}"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    done = _run("apt-get", "download", PACKAGE, where=making)
    if done.returncode:  # the list of packages is missing, or too old
        _run("apt-get", "update", where=making)
        done = _run("apt-get", "download", PACKAGE, where=making)
    if done.returncode:
        raise RuntimeError(f"there is no Prometheus, and no package of it:\n{done.stderr}")
    (archive,) = making.glob("*.deb")
    done = _run("dpkg-deb", "-x", archive.name, "there", where=making)
    if done.returncode:
        raise RuntimeError(f"{archive.name} cannot be unpacked:\n{done.stderr}")
    try:
        (making / "there").rename(folder)
    except OSError:
        if not folder.exists():  # another process was faster
            raise
    shutil.rmtree(making)


def _run(*command: str, where: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=where, capture_output=True, text=True, timeout=300, check=False
    )


def promtool(*arguments: str | Path, said: str = "") -> str:
    """Run promtool and return what it prints. Raises AssertionError where it finds something. said: its input."""
    done = subprocess.run(
        [programs() / "promtool", *arguments],
        input=said,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise AssertionError(
            f"promtool {' '.join(map(str, arguments))}:\n{done.stdout}{done.stderr}"
        )
    return done.stdout + done.stderr


class Prometheus(Server):
    """One server, with the configuration in a file."""

    def __init__(self, folder: Path, configuration: Path) -> None:
        """folder: for its data and log."""
        super().__init__(folder)
        self._configuration = configuration

    def command(self) -> list[str]:
        """Return what is run."""
        return [
            str(programs() / "prometheus"),
            f"--config.file={self._configuration}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]

    def start(self) -> None:
        """Start it, and wait until it has read its own files."""
        super().start()
        deadline = time.monotonic() + READY_S
        while not self._ready():
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError("Prometheus listens, and is not ready")
            time.sleep(0.1)

    def _ready(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{self._base}/-/ready", timeout=5):
            return True
        return False

    @property
    def _base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, **query: str) -> Any:
        """Return the data of an answer of its API."""
        url = f"{self._base}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]

    def values(self, expression: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Return what an expression gives now: values by labels."""
        found = self.ask("query", query=expression)["result"]
        return {tuple(sorted(each["metric"].items())): float(each["value"][1]) for each in found}
