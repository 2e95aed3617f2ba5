"""A state directory to look at, and the command line in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rechannel.cli import execute
from tests.support.clicks import Clicks


@pytest.fixture
def clicks(tmp_path: Path) -> Iterator[Clicks]:
    """A started job without rows; stopped at the end if it still runs."""
    made = Clicks(directory=tmp_path / "state", out=tmp_path / "out")
    made.start()
    yield made
    made.job_running.stop()


@pytest.fixture
def stopped(clicks: Clicks) -> Clicks:
    """A job that was stopped after three timesteps."""
    clicks.push([("ann", 1), ("bob", 2), (None, 3)])
    clicks.push([("ann", 10), ("cleo", 4)])
    clicks.push([("bob", -1), ("dan", 5)])
    clicks.job_running.stop()
    return clicks


@dataclass(frozen=True)
class Reaction:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.out.splitlines()]


@pytest.fixture
def rechannel(capfd: pytest.CaptureFixture[str]) -> Callable[..., Reaction]:
    """Run a command: arguments in, exit code and what was printed out."""

    def call(*arguments: object) -> Reaction:
        capfd.readouterr()
        code = execute([str(argument) for argument in arguments])
        printed = capfd.readouterr()
        return Reaction(code, printed.out, printed.err)

    return call


@pytest.fixture
def clean_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a program changes in this process is undone."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    monkeypatch.setenv("PYSPARK_PYTHON", os.environ.get("PYSPARK_PYTHON", sys.executable))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("rechannel_program_"):
            del sys.modules[name]
