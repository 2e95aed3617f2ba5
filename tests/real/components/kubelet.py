"""What a kubelet does for pods of Spark's executors, with processes in place of containers.

It starts what the image of `deploy/image` starts: `entrypoint.sh executor`, with the environment of the pod.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyspark

from tests.real.components.jars import ROOT
from tests.real.components.kubernetes import Kubernetes

ENTRYPOINT = ROOT / "deploy" / "image" / "entrypoint.sh"
PODS = "/api/v1/namespaces/default/pods"
ADDRESS = "127.0.0.1"
CONTAINER = "spark-kubernetes-executor"
PAUSE_S = 0.2


class Kubelet:
    """Runs every pending pod of the namespace `default` until it is stopped."""

    def __init__(self, server: Kubernetes, folder: Path, environment: Mapping[str, str]) -> None:
        """folder: a directory per pod. environment: of executors, beneath that of their pods."""
        self._server, self._folder, self._environment = server, folder, environment
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        """By pod: what runs."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and with it every process."""
        self._stopped.set()
        self._thread.join(60)
        for process in self.processes.values():
            _kill(process)

    def _work(self) -> None:
        while not self._stopped.wait(PAUSE_S):
            _, answer = self._server.ask("GET", PODS)
            pods = {pod["metadata"]["name"]: pod for pod in answer["items"]}
            for name in list(self.processes):
                self._look(name, pods.get(name))
            for name, pod in pods.items():
                waits = pod["status"].get("phase") == "Pending"
                if waits and name not in self.processes and not _deleted(pod):
                    self._begin(name, pod)

    def _begin(self, name: str, pod: dict[str, Any]) -> None:
        place = self._folder / name
        place.mkdir(parents=True)
        fields = {"status.podIP": ADDRESS, "metadata.name": name}
        own = {"SPARK_LOCAL_DIRS": str(place), "SPARK_HOME": str(Path(pyspark.__file__).parent)}
        for item in pod["spec"]["containers"][0].get("env", []):
            field = item.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            own[item["name"]] = item.get("value") or fields.get(field, "")
        own["SPARK_LOCAL_DIRS"] = str(place)
        with (place / "log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                ["sh", str(ENTRYPOINT), "executor"],
                cwd=place,
                env={"PATH": os.environ["PATH"], **self._environment, **own},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        target = {"apiVersion": "v1", "kind": "Node", "name": "here"}
        bound = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": target,
        }
        self._server.ask("POST", f"{PODS}/{name}/binding", bound)
        self._tell(name, "Running", {"running": {"startedAt": _now()}}, ready=True)

    def _look(self, name: str, pod: dict[str, Any] | None) -> None:
        process = self.processes[name]
        gone = pod is None or _deleted(pod)
        if gone:
            _kill(process)
        code = process.poll()
        if code is None:
            return
        del self.processes[name]
        if gone:
            self._server.ask("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
            return
        ended = {
            "exitCode": code if code >= 0 else 128 - code,
            "reason": "Error" if code else "Completed",
            "startedAt": _now(),
            "finishedAt": _now(),
        }
        self._tell(name, "Failed" if code else "Succeeded", {"terminated": ended}, ready=False)

    def _tell(self, name: str, phase: str, state: dict[str, Any], *, ready: bool) -> None:
        container = {
            "name": CONTAINER, "image": "none", "imageID": "none",
            "ready": ready, "restartCount": 0, "state": state,
        }  # fmt: skip
        status = {
            "phase": phase,
            "podIP": ADDRESS,
            "podIPs": [{"ip": ADDRESS}],
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [container],
        }
        kind = "application/merge-patch+json"
        self._server.ask("PATCH", f"{PODS}/{name}/status", {"status": status}, kind)


def _deleted(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
