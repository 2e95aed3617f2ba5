"""Processes that tests start, stop and kill: the other end of `programs.py`."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.spark.programs import PATIENCE

ROOT = Path(__file__).parents[2]


class Child:
    """A function of a test module in a process of its own."""

    def __init__(
        self, log: Path, function: Callable[..., Any], arguments: Mapping[str, Any]
    ) -> None:
        """Start it. log: where its standard error goes. function: importable by its module's name."""
        self.log = log
        target = f"{function.__module__}:{function.__name__}"
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.programs", target, json.dumps(arguments)],
                stdout=subprocess.PIPE,
                stderr=errors,
                stdin=subprocess.DEVNULL,
                env=environment(),
                cwd=log.parent,
                text=True,
            )
        self.facts: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                self.facts.put(json.loads(line))
        self.facts.put(None)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def hear(self, name: str, patience: float = PATIENCE) -> Any:
        """The next fact of a name that it tells."""
        while True:
            try:
                fact = self.facts.get(timeout=patience)
            except queue.Empty:
                self.send(signal.SIGUSR1)  # it writes down what its threads are at
                time.sleep(1)
                raise AssertionError(f"silent for {patience} s:\n{self.errors()}") from None
            if fact is None:
                raise AssertionError(f"ended with {self.process.wait()}:\n{self.errors()}")
            if name in fact:
                return fact[name]

    def send(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.process.pid, number)

    def kill(self) -> int:
        """SIGKILL, and wait until it is dead."""
        self.send(signal.SIGKILL)
        return self.process.wait(PATIENCE)

    def result(self, patience: float = PATIENCE) -> Any:
        """What the function returned."""
        value = self.hear("result", patience)
        assert self.process.wait(PATIENCE) == 0, self.errors()
        return value

    def errors(self) -> str:
        """The end of its standard error."""
        return self.log.read_text()[-8000:]

    def close(self) -> None:
        """End it, whatever state it is in."""
        if self.running:
            self.kill()
        self._reader.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()


def environment(**more: str) -> dict[str, str]:
    """Environment in which a process and its Python workers find this tree."""
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "SPARK_LOCAL_IP": "127.0.0.1",
        **more,
    }
