"""What importing costs, and what pure rooms may not reach for.

Which room may import which is a contract of import-linter, in pyproject.toml.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PACKAGE = SOURCE / "rechannel"

# Rooms that tasks import, in every worker process.
WORKER_ROOMS = ("dataflow", "kernels", "model", "operators", "state")
HEAVY = {"matplotlib", "pandas", "polars", "psutil", "pyspark", "rich", "typer"}

# Rooms that decide and do nothing else: clocks, randomness and ids are arguments there.
PURE_ROOMS = ("dataflow", "engine/loop/core", "model", "profiling/model", "reconfigure")
# A plan knows how to save and load itself; everything else of `reconfigure` works on values.
READS_FILES = {"rechannel/reconfigure/plan.py": {"pathlib.Path"}}
IMPURE_MODULES = {
    "concurrent", "http", "queue", "random", "secrets", "shutil", "socket", "subprocess", "tempfile", "threading",
    "time", "urllib", "uuid",
}  # fmt: skip
IMPURE_CALLS = {
    "datetime.now", "datetime.today", "datetime.utcnow", "date.today",
    "np.random", "numpy.random", "pathlib.Path", "os.environ", "os.getenv", "os.getpid", "os.urandom",
}  # fmt: skip


def files_of(room: str) -> list[Path]:
    """Return the modules of a room; fail if there are none, so that no check passes on nothing."""
    files = sorted((PACKAGE / room).rglob("*.py"))
    assert files, f"there is no package rechannel/{room}: mend the list that names it"
    return files


def modules_of(*rooms: str) -> list[str]:
    """Return the dotted names of the modules in these rooms."""
    files = [file for room in rooms for file in files_of(room)]
    names = [".".join(file.relative_to(SOURCE).with_suffix("").parts) for file in files]
    return [name.removesuffix(".__init__") for name in names]


def impure_uses(source: str) -> list[str]:
    """Every import and name in the source that a pure file has no business with."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            found += [name for name in names if name.split(".")[0] in IMPURE_MODULES]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [
                name
                for name in full
                if name.split(".")[0] in IMPURE_MODULES or name in IMPURE_CALLS
            ]
        elif isinstance(node, ast.Attribute):
            called = ast.unparse(node)
            found += [called] if ".".join(called.split(".")[-2:]) in IMPURE_CALLS else []
        elif isinstance(node, ast.Name) and node.id == "open":
            found.append("open")
    return found


def loaded_by(modules: list[str]) -> set[str]:
    """Top-level packages in memory once a new interpreter has imported the modules."""
    program = (
        "import importlib, json, sys\n"
        "for name in json.loads(sys.argv[1]): importlib.import_module(name)\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, json.dumps(modules)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_importing_the_package_loads_nothing_heavy():
    assert not loaded_by(["rechannel"]) & HEAVY


def test_what_finds_matchings_is_loaded_by_who_asks_for_them_and_not_by_the_driver_later():
    program = (
        "import sys; import rechannel as rc; print('networkx' in sys.modules)\n"
        "rc.strategies.optimized(); print('networkx' in sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", program]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("room", WORKER_ROOMS)
def test_worker_rooms_load_nothing_heavy(room):
    modules = modules_of(room)
    assert not loaded_by(modules) & HEAVY


@pytest.mark.parametrize("room", PURE_ROOMS)
def test_pure_rooms_ask_no_clock_no_dice_and_no_disk(room):
    uses = {
        str(file.relative_to(SOURCE)): set(impure_uses(file.read_text(encoding="utf-8")))
        for file in files_of(room)
    }
    found = {file: names - READS_FILES.get(file, set()) for file, names in uses.items()}
    assert {file: names for file, names in found.items() if names} == {}


def test_each_exception_is_still_one():
    for file, names in READS_FILES.items():
        assert names <= set(impure_uses((SOURCE / file).read_text(encoding="utf-8"))), file


def test_a_pure_room_that_does_not_exist_is_an_error():
    with pytest.raises(AssertionError, match="no package rechannel/nowhere"):
        files_of("nowhere")


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import time", ["time"]),
        ("def f():\n    import random", ["random"]),
        ("import urllib.request", ["urllib.request"]),
        ("from uuid import uuid4", ["uuid.uuid4"]),
        ("from numpy import random", ["numpy.random"]),
        ("from os import urandom", ["os.urandom"]),
        ("from pathlib import Path", ["pathlib.Path"]),
        ("from pathlib import PurePosixPath", []),
        ("x = datetime.datetime.now(tz)", ["datetime.datetime.now"]),
        ("x = np.random.default_rng()", ["np.random"]),
        ("open('x')", ["open"]),
        ("import datetime\nfrom datetime import timedelta", []),
        ("from rechannel.model import time", []),
        ("def now(clock): return clock.now()", []),
        ("store.open('x')", []),
    ],
)
def test_the_reader_of_sources_tells_impure_from_pure(source, found):
    assert impure_uses(source) == found
