"""Real components, started once for all tests that ask for them. Only `make test-real` runs these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.components.kafka import Kafka
from tests.real.components.postgres import Postgres
from tests.real.components.s3 import S3
from tests.real.soak.schedule import Plan
from tests.spark.conftest import child  # noqa: F401 - a fixture

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.real)


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
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """A server that all tests share; each has a folder of its own in the bucket."""
    server = S3(tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def own_s3(tmp_path: Path) -> Iterator[S3]:
    """A server of a test alone, which it may kill."""
    folder = tmp_path / "s3"
    folder.mkdir()
    server = S3(folder)
    server.start()
    yield server
    server.kill()
