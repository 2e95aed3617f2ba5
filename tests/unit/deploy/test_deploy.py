"""The files in deploy/ fit each other and the code. `tests/real/test_manifests.py` compares them with schemas."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from rechannel.cli import launcher
from rechannel.cli.program import find_job, load
from rechannel.cli.remote.values import seconds
from rechannel.job import InProcess
from rechannel.serve.health import LIVE, READY

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "systemd" / "rechannel@.service"
IMAGE = DEPLOY / "image"


def documents(name):
    return [one for one in yaml.safe_load_all((DEPLOY / name).read_text()) if one]


def driver():
    service, stateful = documents("kubernetes/driver.yaml")
    return service, stateful, stateful["spec"]["template"]["spec"]


def stop_timeout(text):
    return seconds(re.search(r"--stop-timeout[ ,\"']+(\w+)", text)[1])


def test_there_is_time_for_a_stop_everywhere():
    """What ends a process by force waits longer than the process needs by its own bound."""
    _, _, pod = driver()
    command = " ".join(pod["containers"][0]["command"])
    assert pod["terminationGracePeriodSeconds"] > stop_timeout(command) + 20
    (application,) = documents("spark-operator/orders.yaml")
    spec = application["spec"]
    assert (
        spec["driver"]["terminationGracePeriodSeconds"] > stop_timeout(str(spec["arguments"])) + 20
    )
    unit = UNIT.read_text()
    assert int(re.search(r"TimeoutStopSec=(\d+)", unit)[1]) > stop_timeout(unit) + 20


def test_probes_ask_what_the_server_answers():
    service, stateful, pod = driver()
    (container,) = pod["containers"]
    paths = [
        container[f"{kind}Probe"]["httpGet"]["path"]
        for kind in ("startup", "liveness", "readiness")
    ]
    assert paths == [LIVE, LIVE, READY]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert ports == {one["name"]: one["port"] for one in service["spec"]["ports"]}
    command = container["command"][-1]
    assert f"--serve 0.0.0.0:{ports['http']}" in command
    assert f"spark.driver.port={ports['driver']}" in command
    assert f"spark.driver.blockManager.port={ports['blocks']}" in command
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert stateful["spec"]["replicas"] == 1
    assert stateful["spec"]["serviceName"] == service["metadata"]["name"]


def test_driver_and_executors_see_one_state_directory():
    (claim,) = documents("kubernetes/state.yaml")
    name = claim["metadata"]["name"]
    _, _, pod = driver()
    command = pod["containers"][0]["command"][-1]
    assert f"persistentVolumeClaim.state.options.claimName={name}" in command
    assert "persistentVolumeClaim.state.mount.path=/state" in command
    assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == name
    (application,) = documents("spark-operator/orders.yaml")
    assert application["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == name
    mounts = [application["spec"][part]["volumeMounts"] for part in ("driver", "executor")]
    assert mounts[0] == mounts[1] == pod["containers"][0]["volumeMounts"]


def test_the_operator_starts_the_launcher():
    (application,) = documents("spark-operator/orders.yaml")
    own = Path(launcher.__file__).relative_to(ROOT / "src")
    assert application["spec"]["mainApplicationFile"].endswith(f"site-packages/{own}")


def test_the_image_copies_what_is_there():
    text = (IMAGE / "Containerfile").read_text()
    lines = re.sub(r"\\\n", " ", text).splitlines()
    instructions = [line.split() for line in lines if line and not line.startswith("#")]
    assert instructions[0][0] == "FROM"
    known = {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "ENTRYPOINT"}
    assert {one[0] for one in instructions} <= known
    for _, *sources, _target in (one for one in instructions if one[0] == "COPY"):
        assert all((ROOT / source).exists() for source in sources), sources
    assert os.access(IMAGE / "entrypoint.sh", os.X_OK)


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")
def test_the_entrypoint_starts_an_executor_as_spark_asks_for_it(tmp_path):
    fake = tmp_path / "java"
    fake.write_text('#!/bin/sh\nfor each in "$@"; do printf "%s\\n" "$each"; done\n')
    fake.chmod(0o755)
    asked = {
        "SPARK_HOME": "/spark",
        "SPARK_EXECUTOR_MEMORY": "2g",
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@orders:7078",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "orders-exec-3",
        "SPARK_JAVA_OPT_0": "-Dspark.a=1 2",
        "SPARK_JAVA_OPT_1": "--add-opens=java.base/java.lang=ALL-UNNAMED",
    }
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **asked}
    command = ["sh", str(IMAGE / "entrypoint.sh"), "executor"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    words = done.stdout.splitlines()
    assert words[:4] == ["-Dspark.a=1 2", asked["SPARK_JAVA_OPT_1"], "-Xms2g", "-Xmx2g"]
    assert words[4:7] == [
        "-cp",
        "/spark/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
    ]
    options = dict(zip(words[7::2], words[8::2], strict=True))
    assert options == {
        "--driver-url": asked["SPARK_DRIVER_URL"],
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.7",
        "--resourceProfileId": "0",
        "--podName": "orders-exec-3",
    }


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")
def test_the_entrypoint_starts_a_driver_and_anything_else(tmp_path):
    fake = tmp_path / "bin" / "spark-submit"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\necho "$$" "$@"\n')
    fake.chmod(0o755)
    environment = {
        "PATH": os.environ["PATH"],
        "SPARK_HOME": str(tmp_path),
        "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.8",
    }

    def said(*arguments):
        command = ["sh", str(IMAGE / "entrypoint.sh"), *arguments]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as child:
            return child.pid, child.communicate(timeout=60)[0].split()

    pid, words = said("driver", "--properties-file", "/opt/spark.properties")
    assert int(words[0]) == pid, "a signal to the container reaches spark-submit"
    assert "spark.driver.bindAddress=10.0.0.8" in words
    assert words[-4:] == ["--deploy-mode", "client", "--properties-file", "/opt/spark.properties"]
    assert said("echo", "a", "b")[1] == ["a", "b"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_reads_the_unit(tmp_path):
    there = re.sub(r"(ExecStart=)\S+", r"\1/bin/true", UNIT.read_text())
    path = tmp_path / "rechannel@orders.service"
    path.write_text(there)
    command = ["systemd-analyze", "verify", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, path.name in done.stderr) == (0, False), done.stderr
    path.write_text(there.replace("KillMode=mixed", "KillMode=gently"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "kill mode" in done.stderr


def test_the_job_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("PYTHONPATH", "PYSPARK_PYTHON"):  # which `load` changes
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.setenv("ORDERS_PLACE", str(tmp_path))
    text = (DEPLOY / "job.py").read_text()
    path = tmp_path / "job.py"
    path.write_text(text.replace('spark = rc.session(name="orders")', "spark = None"))
    running = find_job(load(path), None).start(in_process=InProcess())
    end = time.monotonic() + 60
    try:
        while running.status.timestep < 2:  # its input has no end
            assert time.monotonic() < end
            time.sleep(0.01)
    finally:
        running.stop(60)
    assert running.status.message == "stopped"
