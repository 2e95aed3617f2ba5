"""What a kubelet does for pods, as far as tests need it: each pod's only container is a process of this machine.

It runs the entry point of `deploy/image/`, with the pod's arguments and variables. Images, volumes, probes, requests
and limits mean nothing to it, and all pods have the address 127.0.0.1.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.real.components.kubernetes import MERGE, NAMESPACE, PATHS, Api, RefusedByApiError
from tests.real.components.making import ROOT

ENTRYPOINT = ROOT / "deploy" / "image" / "entrypoint.sh"
ADDRESS = "127.0.0.1"
NODE = "here"
PAUSE_S = 0.2


class Kubelet:
    """Runs pending pods, at most some at a time, and ends those that are deleted. In a thread."""

    def __init__(self, api: Api, folder: Path, most: int, image: Mapping[str, str]) -> None:
        """folder: for the pods' files and logs. image: variables that an image would have."""
        self._api, self._folder, self._most = api, folder, most
        self._image = {**os.environ, **image}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.failure: Exception | None = None
        self.started: list[str] = []
        """Names of pods, in their order."""

    def start(self) -> None:
        """Start it."""
        self._thread.start()

    def stop(self) -> None:
        """End all pods."""
        self._stopping.set()
        self._thread.join(60)
        for process in self._running.values():
            _kill(process)

    def _run(self) -> None:
        while not self._stopping.wait(PAUSE_S):
            try:
                pods = self._api.pods()
                for name in list(self._running):
                    self._look_after(name, pods.get(name))
                for name, pod in pods.items():
                    waits = pod["status"].get("phase") == "Pending" and not _deleted(pod)
                    if waits and name not in self._running and len(self._running) < self._most:
                        self._start(name, pod)
            except (OSError, RefusedByApiError) as error:
                self.failure = error

    def _look_after(self, name: str, pod: dict[str, Any] | None) -> None:
        process = self._running[name]
        if _deleted(pod):
            _kill(process)
            with suppress(RefusedByApiError):
                self._api.ask("DELETE", f"{_path(name)}?gracePeriodSeconds=0")
        elif process.poll() is None:
            return
        else:
            code = process.returncode if process.returncode >= 0 else 128 - process.returncode
            ended = {"exitCode": code, "startedAt": _now(), "finishedAt": _now()}
            self._say(name, "Failed" if code else "Succeeded", {"terminated": ended})
        del self._running[name]

    def _start(self, name: str, pod: dict[str, Any]) -> None:
        (container,) = pod["spec"]["containers"]
        place = self._folder / name
        place.mkdir(parents=True)
        own = {item["name"]: _value(item, name) for item in container.get("env", [])}
        with (place / "log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                ["/bin/sh", str(ENTRYPOINT), *container.get("args", [])],
                cwd=place,
                env={**self._image, **own, "SPARK_LOCAL_DIRS": str(place)},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        bound = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": target,
        }
        self._api.ask("POST", f"{_path(name)}/binding", bound)
        self._say(name, "Running", {"running": {"startedAt": _now()}}, container["name"])
        self.started.append(name)

    def _say(self, name: str, phase: str, state: dict[str, Any], container: str = "") -> None:
        ready = phase == "Running"
        status: dict[str, Any] = {"phase": phase}
        if ready:
            status |= {
                "podIP": ADDRESS,
                "podIPs": [{"ip": ADDRESS}],
                "hostIP": ADDRESS,
                "startTime": _now(),
                "conditions": [{"type": "Ready", "status": "True"}],
            }
        one = {"name": container or "spark-kubernetes-executor", "image": "none", "imageID": "none"}
        status["containerStatuses"] = [{**one, "ready": ready, "restartCount": 0, "state": state}]
        with suppress(RefusedByApiError):  # it has been deleted
            self._api.ask("PATCH", f"{_path(name)}/status", {"status": status}, MERGE)


def _path(name: str) -> str:
    return f"{PATHS['Pod'].format(NAMESPACE)}/{name}"


def _deleted(pod: dict[str, Any] | None) -> bool:
    return pod is None or "deletionTimestamp" in pod["metadata"]


def _value(item: dict[str, Any], name: str) -> str:
    if "value" in item:
        return str(item["value"])
    field = item.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
    return {"status.podIP": ADDRESS, "metadata.name": name}.get(field, "")


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
