"""A cluster of several hosts on one machine: Spark's standalone master, and workers on 127.0.0.2, 127.0.0.3, ...

To Spark every loopback address is a host of its own: copies of stragglers are started, data is sent, and
hosts can have caches, which workers of `local-cluster` cannot. Linux answers on all of 127.0.0.0/8;
elsewhere the addresses have to be set up first. Each daemon is a JVM of some 200 MB.

    with loopback(place, [Host(address="127.0.0.2"), Host(address="127.0.0.3")]) as cluster:
        spark = rc.session(cluster.url, **cluster.settings)
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE_S = 300.0
"""How long a daemon may take to start: it takes two seconds on a machine that is not busy."""

_GUARD = """
import os, signal, sys
groups = []
for line in sys.stdin:
    number = int(line)
    groups.append(number) if number > 0 else groups.remove(-number)
for group in reversed(groups):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""
"""Receives process groups, and ends them when the process that started them ends, by whatever death: its
standard input closes then."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """A worker. environment: of its executors and their Python workers, beside what the driver sends them."""

    address: str
    cores: int = 1
    memory_mb: int = 1024
    environment: Mapping[str, str] = field(default_factory=dict)


class Loopback:
    """A running cluster. Made by `loopback`."""

    def __init__(
        self, place: Path, environment: Mapping[str, str], master: str = "127.0.0.1"
    ) -> None:
        """Start the master, at an address. Raises RuntimeError, with its log, when it does not come up."""
        import pyspark

        self.place = place
        self.master = master
        self.settings: Mapping[str, str] = {
            "spark__driver__host": master,
            "spark__driver__bindAddress": master,
        }
        """What `rechannel.session` needs to use it."""
        self._home = Path(pyspark.__file__).parent
        self._environment = environment
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-c", _GUARD], stdin=subprocess.PIPE, start_new_session=True
        )
        place.mkdir(parents=True, exist_ok=True)
        try:
            log = self._start("Master", master, ["--port", "0", "--webui-port", "0"], {})
            self.url = self._said(master, log, r"Starting Spark master at (spark://[\w.]+:\d+)")
        except BaseException:
            self.stop()
            raise

    @property
    def hosts(self) -> tuple[str, ...]:
        """Addresses of the workers."""
        return tuple(address for address in self._processes if address != self.master)

    def add(self, *hosts: Host) -> None:
        """Start workers beside each other and wait until the master knows them."""
        logs = {host.address: self._start_worker(host) for host in hosts}
        for address, log in logs.items():
            self._said(address, log, r"(Successfully registered) with master")

    def kill(self, address: str) -> None:
        """A host dies, with its executors (SIGKILL). Raises KeyError for one that does not run."""
        process = self._processes.pop(address)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        self._tell_guard(-process.pid)
        process.wait(PATIENCE_S)

    def stop(self) -> None:
        """End everything, workers first."""
        for address in reversed(list(self._processes)):
            self.kill(address)
        with contextlib.suppress(BrokenPipeError):
            self._guard.communicate(timeout=PATIENCE_S)

    def _start_worker(self, host: Host) -> Path:
        arguments = ["--webui-port", "0", "--work-dir", str(self.place / host.address)]
        size = ["--cores", str(host.cores), "--memory", f"{host.memory_mb}m"]
        return self._start("Worker", host.address, [*arguments, *size, self.url], host.environment)

    def _start(
        self, kind: str, address: str, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> Path:
        """Start a daemon in a process group of its own, in which its executors are as well; its log."""
        log = self.place / f"{kind}-{address}.log"
        launcher = str(self._home / "bin" / "spark-class")
        daemon = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*self._there(address), launcher, daemon, "--host", address, *arguments],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env=self._of_daemon(address, environment),
                start_new_session=True,
            )
        self._processes[address] = process
        self._tell_guard(process.pid)
        return log

    def _there(self, address: str) -> list[str]:
        """What a command begins with that runs on a host."""
        del address
        return []

    def _of_daemon(self, address: str, environment: Mapping[str, str]) -> dict[str, str]:
        return {
            **os.environ,
            **self._environment,
            **environment,
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": address,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
        }

    def _tell_guard(self, group: int) -> None:
        """To end a process group with this process, or (negative) that it is gone."""
        if self._guard.stdin is not None:
            self._guard.stdin.write(b"%d\n" % group)
            self._guard.stdin.flush()

    def _said(self, address: str, log: Path, pattern: str) -> str:
        """What a daemon's log says about something; waits for it."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and self._processes[address].poll() is None:
            match = re.search(pattern, log.read_text(errors="replace"))
            if match:
                return match[1]
            time.sleep(0.05)
        msg = (
            f"daemon at {address} exited, or did not log {pattern!r} within {PATIENCE_S} s; last 4,000 characters of"
            f" {log}:\n{log.read_text(errors='replace')[-4000:]}"
        )
        raise RuntimeError(msg)


@contextmanager
def loopback(
    place: Path, hosts: Sequence[Host], environment: Mapping[str, str] | None = None
) -> Iterator[Loopback]:
    """A cluster as long as the context lasts; not longer than this process, whatever ends it.

    place: a directory for logs and work. environment: of all daemons, beside this process's own.
    """
    cluster = Loopback(place, environment or {})
    try:
        cluster.add(*hosts)
        yield cluster
    finally:
        cluster.stop()
