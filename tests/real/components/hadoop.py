"""What the daemons of Hadoop have in common: their archives, settings and processes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.real.components.jars import resolved

ARCHIVES = (
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0",
    "org.bouncycastle:bcpkix-jdk18on:1.82",
    "org.slf4j:slf4j-reload4j:1.7.36",
)
READY_S = 120.0
LOGGING = """log4j.rootLogger=WARN,c
log4j.appender.c=org.apache.log4j.ConsoleAppender
log4j.appender.c.layout=org.apache.log4j.PatternLayout
log4j.appender.c.layout.ConversionPattern=%d %p %c{1}: %m%n
"""


def write_properties(path: Path, properties: dict[str, str]) -> None:
    """Write a file of settings."""
    lines = [
        f"<property><name>{k}</name><value>{v}</value></property>" for k, v in properties.items()
    ]
    path.write_text("<configuration>" + "\n".join(lines) + "</configuration>")


def command(main: str, *folders: Path) -> list[str]:
    """Return the command of a class. folders: with its settings, the first first."""
    path = ":".join([*map(str, folders), f"{resolved('hadoop', *ARCHIVES)}/*"])
    java = ["java", "-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return [*java, "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", path, main]


class Daemons:
    """Processes with a log each, in a folder."""

    def __init__(self, folder: Path) -> None:
        """folder: for logs."""
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def run(self, name: str, main: str, *folders: Path) -> None:
        """Start one. folders: with its settings."""
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command(main, *folders),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """Take one away, as a loss of power does."""
        process = self._processes.pop(name, None)
        if process is None:
            return
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)

    def stop(self) -> None:
        """End them, the last first."""
        for process in reversed(self._processes.values()):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self._processes.values()):
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(30)
        self._processes.clear()

    def until(self, reached: Callable[[], bool], what: str) -> None:
        """Wait for something while all of them run."""
        end = time.monotonic() + READY_S
        while not reached():
            dead = [name for name, each in self._processes.items() if each.poll() is not None]
            if dead or time.monotonic() > end:
                said = [
                    f"{log.name}: {log.read_text(errors='replace')[-1_500:]}"
                    for log in self._folder.glob("*.log")
                ]
                self.stop()
                raise RuntimeError(f"in vain: {what}\n" + "\n".join(said))
            time.sleep(0.2)
