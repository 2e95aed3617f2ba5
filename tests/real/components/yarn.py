"""YARN on loopback: one resource manager and its node managers, the real daemons, without HDFS."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from tests.real.components.jars import resolved
from tests.real.components.kafka import free_port

ARCHIVES = (
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0",
    "org.bouncycastle:bcpkix-jdk18on:1.82",
    "org.slf4j:slf4j-reload4j:1.7.36",
)
READY_S = 120.0
MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
NODE = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
LOGGING = """log4j.rootLogger=WARN,c
log4j.appender.c=org.apache.log4j.ConsoleAppender
log4j.appender.c.layout=org.apache.log4j.PatternLayout
log4j.appender.c.layout.ConversionPattern=%d %p %c{1}: %m%n
"""


class Yarn:
    """A cluster. `conf` is what HADOOP_CONF_DIR names."""

    def __init__(self, folder: Path, nodes: int, *, memory_mb: int = 3072, cores: int = 2) -> None:
        """folder: for settings, containers and logs. memory_mb, cores: of each node."""
        self.conf = folder / "conf"
        self._folder, self._nodes = folder, nodes
        self._size = {"memory-mb": str(memory_mb), "cpu-vcores": str(cores)}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ports = {
            name: free_port() for name in ("", "scheduler.", "resource-tracker.", "admin.")
        }
        self._web = free_port()

    def start(self) -> None:
        """Start the daemons, and wait until all nodes are registered."""
        self.conf.mkdir(parents=True)
        place = self._folder
        _write(
            self.conf / "core-site.xml",
            {"fs.defaultFS": "file:///", "hadoop.tmp.dir": f"{place}/tmp"},
        )
        queues = "yarn.scheduler.capacity"
        fair = "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"
        _write(self.conf / "capacity-scheduler.xml", {
            f"{queues}.root.queues": "default",
            f"{queues}.root.default.capacity": "100",
            f"{queues}.maximum-am-resource-percent": "0.5",
            f"{queues}.resource-calculator": fair,
        })  # fmt: skip
        _write(self.conf / "yarn-site.xml", self._shared())
        (self.conf / "log4j.properties").write_text(LOGGING)
        self._run("manager", MANAGER, self.conf)
        self._until(lambda: self.registered() is not None, "the resource manager answers")
        for number in range(1, self._nodes + 1):
            self._start_node(number)
        self._until(lambda: self.registered() == self._nodes, "the nodes are registered")

    def registered(self) -> int | None:
        """How many nodes are active; None while nobody answers."""
        with suppress(OSError, ValueError):
            url = f"http://127.0.0.1:{self._web}/ws/v1/cluster/metrics"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return int(json.load(answer)["clusterMetrics"]["activeNodes"])
        return None

    def stop(self) -> None:
        """End the daemons, and with the node managers their containers."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self._processes):
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(30)
        self._processes.clear()

    def _shared(self) -> dict[str, str]:
        manager = "yarn.resourcemanager"
        return {
            **{f"{manager}.{name}address": f"127.0.0.1:{p}" for name, p in self._ports.items()},
            f"{manager}.webapp.address": f"127.0.0.1:{self._web}",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.5",
            "yarn.nodemanager.env-whitelist": "JAVA_HOME,PATH",
        }

    def _start_node(self, number: int) -> None:
        place = self._folder / f"node{number}"
        place.mkdir()
        node = "yarn.nodemanager"
        own = {
            f"{node}.{name}": f"127.0.0.1:{free_port()}"
            for name in (
                "address",
                "localizer.address",
                "webapp.address",
                "collector-service.address",
            )
        }
        sizes = {f"{node}.resource.{name}": value for name, value in self._size.items()}
        places = {f"{node}.local-dirs": f"{place}/local", f"{node}.log-dirs": f"{place}/logs"}
        _write(place / "yarn-site.xml", {**self._shared(), **own, **sizes, **places})
        self._run(f"node{number}", NODE, place, self.conf)

    def _run(self, name: str, main: str, *classes: Path) -> None:
        path = ":".join([*map(str, classes), f"{resolved('hadoop', *ARCHIVES)}/*"])
        command = ["java", "-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command += ["--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", path, main]
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._processes.append(process)

    def _until(self, reached: object, what: str) -> None:
        end = time.monotonic() + READY_S
        while not reached():  # type: ignore[operator]
            dead = [process for process in self._processes if process.poll() is not None]
            if dead or time.monotonic() > end:
                said = [
                    f"{log.name}: {log.read_text(errors='replace')[-1_500:]}"
                    for log in self._folder.glob("*.log")
                ]
                self.stop()
                raise RuntimeError(f"in vain: {what}\n" + "\n".join(said))
            time.sleep(0.2)


def _write(path: Path, properties: dict[str, str]) -> None:
    lines = [
        f"<property><name>{k}</name><value>{v}</value></property>" for k, v in properties.items()
    ]
    path.write_text("<configuration>" + "\n".join(lines) + "</configuration>")
