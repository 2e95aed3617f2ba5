"""On real YARN daemons, by spark-submit: a live rescale, a killed executor, and the exact result."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pyspark
import pytest

from tests.real.components.packed import packed
from tests.real.components.yarn import Yarn
from tests.spark.programs import PATIENCE, journal_of
from tests.spark.submitting import Submitted, program
from tests.support.jvms import SHORT_LIVED

pytestmark = [pytest.mark.real, pytest.mark.slow]

HOME = Path(pyspark.__file__).parent
ROWS, PER_TIMESTEP = 60_000, 1_000
TOKEN = "token-of-the-test-token-of-the-test"


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


def ask(url, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    request = urllib.request.Request(url + path, data, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def until(reached, running, what):
    end = time.monotonic() + PATIENCE
    while not (found := reached()):
        assert running.process.poll() is None, running.said()[-4_000:]
        assert time.monotonic() < end, f"in vain: {what}"
        time.sleep(0.1)
    return found


def executors():
    """JVMs of executors on this machine."""
    found = []
    for process in psutil.process_iter(["cmdline", "name"]):
        line = " ".join(process.info["cmdline"] or [])
        if process.info["name"] == "java" and "YarnCoarseGrainedExecutorBackend" in line:
            found.append(process)
    return found


def results(place):
    """The last value of each key: count and sum; and where its tasks ran."""
    found, places = {}, set()
    for folder in sorted((place / "out").glob("timestep=*")):
        for file in folder.glob("*.parquet"):
            for row in pq.ParquetFile(file).read().to_pylist():
                found[row["k"]] = (row["n"], row["s"])
                places.add(row["at"].split("\t")[1])
    return found, places


def expected(rows):
    numbers = range(rows)
    return {k: (len(numbers[k::7]), sum(numbers[k::7])) for k in range(7)}


def test_a_rescale_and_a_killed_executor_leave_the_result_exact(yarn, tmp_path):
    path = program(tmp_path, rows=ROWS, per_timestep=PER_TIMESTEP, more=", rows_per_second=1_500")
    running = Submitted(
        tmp_path,
        options(tmp_path),
        ["run", str(path), "--serve", "127.0.0.1:0"],
        {"HADOOP_CONF_DIR": str(yarn.conf), "RECHANNEL_TOKEN": TOKEN, "PYSPARK_PYTHON": None},
    )
    try:
        running.until_said("serving it at")
        url = re.search(r"serving it at (http://\S+)", running.said())[1]
        running.until_committed(3)
        until(lambda: len(executors()) == 2, running, "two executors")
        body = {"change": {"kind": "rescale", "operator": "sums", "tasks": 4}}
        made = ask(url, "/reconfigure", body)["id"]
        done = until(
            lambda: (one := ask(url, f"/reconfigurations/{made}"))["phase"] == "done" and one,
            running,
            "the rescale is done",
        )
        assert done["bins"] > 0
        before = ask(url, "/status")["timestep"]
        victims = executors()
        victims[0].kill()
        victims[0].wait(60)
        assert not victims[0].is_running()
        until(lambda: ask(url, "/status")["timestep"] >= before + 3, running, "it goes on")
        assert before < ROWS // PER_TIMESTEP
        others = until(
            lambda: len(now := executors()) == 2 and now, running, "another executor comes"
        )
        assert {one.pid for one in others} != {one.pid for one in victims}
        assert ask(url, "/status")["operators"]["sums"]["tasks"] == 4
        offset = until(lambda: _read(tmp_path) == ROWS, running, "all rows are read")
        assert offset
        running.send(signal.SIGTERM)
        assert running.ended() == 0, running.said()[-4_000:]
    finally:
        running.kill()
    found, places = results(tmp_path)
    assert found == expected(ROWS)
    assert all(place.endswith("/environment") for place in places), places


def _read(place):
    return sum(n for n, _ in results(place)[0].values())


def test_the_driver_runs_in_a_container_of_the_cluster(yarn, tmp_path):
    """Cluster mode: the archive has the driver's Python too, and the program is shipped."""
    path = program(tmp_path, rows=3_000)
    running = Submitted(
        tmp_path,
        [*options(tmp_path, "cluster"), "--files", str(path)],
        ["run", path.name, "--until-idle"],
        {"HADOOP_CONF_DIR": str(yarn.conf), "PYSPARK_PYTHON": None},
    )
    try:
        assert running.ended() == 0, running.said()[-4_000:]
    finally:
        running.kill()
    assert not journal_of(tmp_path / "state").open_intents
    found, places = results(tmp_path)
    assert found == expected(3_000)
    assert all(place.endswith("/environment") for place in places), places
