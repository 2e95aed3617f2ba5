"""On real YARN daemons, by spark-submit: a live rescale, a killed executor, and the exact result."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark
import pytest

from tests.real.components.packed import packed
from tests.real.components.yarn import Yarn
from tests.real.disturbed import disturbed, expected, results
from tests.spark.programs import journal_of
from tests.spark.submitting import Submitted, program
from tests.support.jvms import SHORT_LIVED

pytestmark = [pytest.mark.real, pytest.mark.slow]

HOME = Path(pyspark.__file__).parent
BACKEND = "YarnCoarseGrainedExecutorBackend"


@pytest.fixture(scope="module")
def yarn(tmp_path_factory):
    cluster = Yarn(tmp_path_factory.mktemp("yarn"), 2)
    cluster.start()
    yield cluster
    cluster.stop()


def options(place, mode="client"):
    conf = {
        "spark.ui.enabled": "false",
        "spark.log.level": "WARN",
        "spark.yarn.jars": f"local:{HOME}/jars/*",
        "spark.yarn.stagingDir": f"file://{place}/staging",
        "spark.yarn.am.memory": "384m",
        "spark.yarn.am.memoryOverhead": "128m",
        "spark.driver.memoryOverhead": "384m",
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.executor.instances": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "600m",
        "spark.executor.memoryOverhead": "384m",
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        "spark.pyspark.python": "./environment/bin/python",
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": "./environment/bin/python",
        # Of the daemons' own environment nothing may lead to this checkout.
        "spark.executorEnv.PYTHONPATH": "",
    }
    if mode == "client":
        conf["spark.pyspark.driver.python"] = sys.executable
        conf["spark.driver.host"] = "127.0.0.1"
    settings = [f"--conf={key}={value}" for key, value in conf.items()]
    archive = f"{packed()}#environment"
    return ["--master", "yarn", "--deploy-mode", mode, "--archives", archive, *settings]


def environment(yarn):
    return {"HADOOP_CONF_DIR": str(yarn.conf), "PYSPARK_PYTHON": None}


def test_a_rescale_and_a_killed_executor_leave_the_result_exact(yarn, tmp_path):
    places = disturbed(tmp_path, options(tmp_path), environment(yarn), BACKEND)
    assert all(place.endswith("/environment") for place in places), places


def test_the_driver_runs_in_a_container_of_the_cluster(yarn, tmp_path):
    """Cluster mode: the archive has the driver's Python too, and the program is shipped."""
    path = program(tmp_path, rows=3_000)
    running = Submitted(
        tmp_path,
        [*options(tmp_path, "cluster"), "--files", str(path)],
        ["run", path.name, "--until-idle"],
        environment(yarn),
    )
    try:
        assert running.ended() == 0, running.said()[-4_000:]
    finally:
        running.kill()
    assert not journal_of(tmp_path / "state").open_intents
    found, places = results(tmp_path)
    assert found == expected(3_000)
    assert all(place.endswith("/environment") for place in places), places
