"""Fixtures of the tests on Spark."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.spark.children import Child
from tests.spark.programs import BRIEF, ledger, outputs, run_in_process, states


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """Start functions as processes; what is left of them ends with the test."""
    children: list[Child] = []
    numbers = count()

    def start(function: Callable[..., Any], **arguments: Any) -> Child:
        made = Child(tmp_path / f"child-{next(numbers)}.log", function, arguments)
        children.append(made)
        return made

    yield start
    for made in children:
        made.close()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory."""
    return tmp_path / "state"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Where file sinks write."""
    return tmp_path / "out"


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """State and output of a ledger that nothing happened to."""
    place = tmp_path_factory.mktemp("undisturbed")
    job = run_in_process(ledger(place / "out"), place / "state")
    return states(job), outputs(place / "out")


@pytest.fixture(scope="session")
def briefly_undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """As `undisturbed`, of the first `BRIEF` rows."""
    place = tmp_path_factory.mktemp("briefly-undisturbed")
    job = run_in_process(ledger(place / "out", rows=BRIEF), place / "state")
    return states(job), outputs(place / "out")
