"""Real components, started once for all tests that ask for them. Only `make test-real` runs these tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real.components.ahead import fetch_ahead
from tests.real.components.azure import Azure
from tests.real.components.gcs import GCS
from tests.real.components.hdfs import Hdfs
from tests.real.components.kafka import Kafka
from tests.real.components.postgres import Postgres
from tests.real.components.s3 import S3
from tests.real.components.server import StateServer
from tests.real.soak.schedule import Plan
from tests.spark.conftest import child  # noqa: F401 - a fixture

KINDS: dict[str, Callable[[Path], StateServer]] = {"s3": S3, "gs": GCS, "az": Azure, "hdfs": Hdfs}
HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.real)


@pytest.fixture(scope="session", autouse=True)
def made_ahead(request: pytest.FixtureRequest) -> None:
    """Have everything that the tests of this run need made from the beginning on."""
    items = [each for each in request.session.items if isinstance(each, pytest.Function)]
    fetch_ahead({name for each in items for name in each.fixturenames})


@pytest.fixture
def soak_plan(pytestconfig: pytest.Config) -> Plan:
    """How long the soak takes, and what happens in it. It runs only if it is asked for."""
    seconds = pytestconfig.getoption("--soak")
    if seconds is None:
        pytest.skip("`make soak` runs it")
    return Plan(
        seconds=seconds,
        every_s=pytestconfig.getoption("--soak-every"),
        seed=pytestconfig.getoption("--soak-seed"),
    )


@pytest.fixture
def soak_rate(pytestconfig: pytest.Config) -> int:
    """Records per second of the soak."""
    return int(pytestconfig.getoption("--soak-rate"))


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker that all tests share; each has topics of its own."""
    broker = Kafka(tmp_path_factory.mktemp("kafka"))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[Kafka]:
    """A broker of a test alone, which it may kill."""
    broker = Kafka(tmp_path)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def three_kafkas(tmp_path: Path) -> Iterator[Kafka]:
    """Three brokers of a test alone: it may kill any of them.

    A single one that is killed between the decision to commit and the commit's markers loses the markers.
    """
    brokers = Kafka(tmp_path / "kafka", brokers=3)
    brokers.start()
    yield brokers
    brokers.kill()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server that all tests share; each has tables of its own."""
    server = Postgres()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A server of a test alone, which it may kill."""
    server = Postgres()
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], StateServer]]:
    """Servers that all tests share, by their kind; each test has a folder of its own."""
    started: dict[str, StateServer] = {}

    def of_kind(kind: str) -> StateServer:
        if kind not in started:
            started[kind] = KINDS[kind](tmp_path_factory.mktemp(kind))
            started[kind].start()
        return started[kind]

    yield of_kind
    for server in started.values():
        server.close()


@pytest.fixture
def own_store(tmp_path: Path) -> Iterator[Callable[[str], StateServer]]:
    """A server of a test alone, which it may kill."""
    made: list[StateServer] = []

    def of_kind(kind: str) -> StateServer:
        folder = tmp_path / kind
        folder.mkdir()
        made.append(KINDS[kind](folder))
        made[-1].start()
        return made[-1]

    yield of_kind
    for server in made:
        server.close()


@pytest.fixture
def s3(stores: Callable[[str], StateServer]) -> StateServer:
    """A server of S3 that all tests share."""
    return stores("s3")
