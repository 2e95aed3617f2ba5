"""Fixtures of the tests on Spark."""

from itertools import count

import pytest

from tests.spark.children import Child
from tests.spark.programs import ledger, outputs, run, states


@pytest.fixture
def child(tmp_path):
    """Start functions as processes; what is left of them ends with the test."""
    children, numbers = [], count()

    def start(function, **arguments):
        made = Child(tmp_path / f"child-{next(numbers)}.log", function, arguments)
        children.append(made)
        return made

    yield start
    for made in children:
        made.close()


@pytest.fixture
def state(tmp_path):
    """A state directory."""
    return tmp_path / "state"


@pytest.fixture
def out(tmp_path):
    """Where file sinks write."""
    return tmp_path / "out"


@pytest.fixture(scope="session")
def undisturbed(spark, tmp_path_factory):
    """State and output of a ledger that nothing happened to."""
    place = tmp_path_factory.mktemp("undisturbed")
    job = run(spark, ledger(place / "out"), place / "state")
    return states(job), outputs(place / "out")
