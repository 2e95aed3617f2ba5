"""What all tests share: how thorough a run is, and one Spark session per process."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support.jvms import SHORT_LIVED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent

# How long an example takes says nothing on a machine that other work shares.
settings.register_profile(
    "fast",
    deadline=None,
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough",
    settings.get_profile("fast"),
    max_examples=1000,
    derandomize=False,
    print_blob=True,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough",
        action="store_true",
        help="many more examples, schedules and crashes per test (make test-all)",
    )
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what the stories of tests/scenarios/{loop,coordinator} lead to into their files",
    )
    soak = parser.getgroup("soak", "the soak of tests/real/soak (make soak)")
    soak.addoption("--soak", type=float, metavar="SECONDS", help="run it, for so long")
    soak.addoption(
        "--soak-every",
        type=float,
        default=20.0,
        metavar="SECONDS",
        help="between two changes or faults",
    )
    soak.addoption("--soak-seed", type=int, default=1, metavar="N", help="decides what happens")
    soak.addoption("--soak-rate", type=int, default=500, metavar="N", help="records per second")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("thorough" if config.getoption("--thorough") else "fast")
    # Of drivers, also in processes that tests start, and of what starts these.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", SHORT_LIVED)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


def pytest_collection_finish() -> None:
    # What was collected stays to the end: no later collection of garbage has to look at it.
    gc.collect()
    gc.freeze()
    # Of what tests make, little refers to itself.
    gc.set_threshold(50_000)


@pytest.fixture(autouse=True, scope="session")
def _runtime_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What served jobs leave for commands of the same user is not left beside that of others."""
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(tmp_path_factory.mktemp("runtime"))
    yield
    if before is None:
        del os.environ["XDG_RUNTIME_DIR"]
    else:
        os.environ["XDG_RUNTIME_DIR"] = before


@pytest.fixture(scope="session")
def thorough(pytestconfig: pytest.Config) -> bool:
    """Whether this run is `make test-all`: tests scale their number of trials by it."""
    return bool(pytestconfig.getoption("--thorough"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A classic session on two cores with retries; started by the first test that asks for it.

    Under pytest-xdist every worker process has its own.
    """
    os.environ.update(_worker_environment())
    session = _start_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


def _worker_environment() -> dict[str, str]:
    """Environment that makes Python workers run this interpreter and find this tree."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def _start_session(directory: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    options: dict[str, bool | float | int | str | None] = {
        "spark.driver.memory": "1g",
        "spark.local.dir": str(directory / "local"),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    # local[2] alone never retries a task; the second number is how often one may run.
    builder = SparkSession.builder.master("local[2,4]").appName("rechannel tests")
    session = builder.config(map=options).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
