"""YARN on loopback: one resource manager and its node managers, the real daemons, without HDFS."""

from __future__ import annotations

import json
import urllib.request
from contextlib import suppress
from pathlib import Path

from tests.real.components.hadoop import LOGGING, Daemons, write_properties
from tests.real.components.kafka import free_port

MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
NODE = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"


class Yarn:
    """A cluster. `conf` is what HADOOP_CONF_DIR names."""

    def __init__(self, folder: Path, nodes: int, *, memory_mb: int = 3072, cores: int = 2) -> None:
        """folder: for settings, containers and logs. memory_mb, cores: of each node."""
        self.conf = folder / "conf"
        self._folder, self._nodes = folder, nodes
        self._size = {"memory-mb": str(memory_mb), "cpu-vcores": str(cores)}
        self._daemons = Daemons(folder)
        self._ports = {
            name: free_port() for name in ("", "scheduler.", "resource-tracker.", "admin.")
        }
        self._web = free_port()

    def start(self) -> None:
        """Start the daemons, and wait until all nodes are registered."""
        self.conf.mkdir(parents=True)
        place = self._folder
        write_properties(
            self.conf / "core-site.xml",
            {"fs.defaultFS": "file:///", "hadoop.tmp.dir": f"{place}/tmp"},
        )
        queues = "yarn.scheduler.capacity"
        fair = "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"
        write_properties(self.conf / "capacity-scheduler.xml", {
            f"{queues}.root.queues": "default",
            f"{queues}.root.default.capacity": "100",
            f"{queues}.maximum-am-resource-percent": "0.5",
            f"{queues}.resource-calculator": fair,
        })  # fmt: skip
        write_properties(self.conf / "yarn-site.xml", self._shared())
        (self.conf / "log4j.properties").write_text(LOGGING)
        self._daemons.run("manager", MANAGER, self.conf)
        self._daemons.until(lambda: self.registered() is not None, "the resource manager answers")
        for number in range(1, self._nodes + 1):
            self._start_node(number)
        self._daemons.until(lambda: self.registered() == self._nodes, "the nodes are registered")

    def registered(self) -> int | None:
        """How many nodes are active; None while nobody answers."""
        with suppress(OSError, ValueError):
            url = f"http://127.0.0.1:{self._web}/ws/v1/cluster/metrics"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return int(json.load(answer)["clusterMetrics"]["activeNodes"])
        return None

    def stop(self) -> None:
        """End the daemons, and with the node managers their containers."""
        self._daemons.stop()

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
        write_properties(place / "yarn-site.xml", {**self._shared(), **own, **sizes, **places})
        self._daemons.run(f"node{number}", NODE, place, self.conf)
