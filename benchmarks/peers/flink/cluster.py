"""A Flink cluster on this machine: one JobManager, one TaskManager, and their REST interface."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from benchmarks.harness import Parameters

PATIENCE_SECONDS = 180.0
POLL_SECONDS = 0.05
ROLES = ("jobmanager", "taskmanager")
_GRACE_SECONDS = 20.0
_TAIL_LINES = 5
# Whatever proxy the environment names is not asked about this machine.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class RefusedByFlinkError(RuntimeError):
    """Flink's own words why it did not do what it was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster. port: of its REST interface."""

    port: int

    @property
    def settings(self) -> dict[str, str]:
        """What a client needs to submit jobs."""
        return {
            "execution.target": "remote",
            "rest.address": "localhost",
            "rest.port": str(self.port),
        }

    def ask(self, path: str, method: str = "GET", body: Any = None) -> Any:
        """One request; the JSON answer, None if it is empty. Raises RefusedByFlinkError."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://localhost:{self.port}{path}",
            data=data,
            method=method,
            headers={"Content-Type": "application/json"},
        )
        try:
            with _OPENER.open(request, timeout=PATIENCE_SECONDS) as answer:
                told = answer.read()
        except urllib.error.HTTPError as error:
            reason = error.read().decode(errors="replace")
            raise RefusedByFlinkError(f"{method} {path}: {reason}") from error
        return json.loads(told) if told else None

    def wait(self, what: str, path: str, ready: Callable[[Any], bool]) -> Any:
        """The first answer that is ready. Raises RuntimeError after `PATIENCE_SECONDS`.

        A cluster that does not answer, or cannot yet, is asked again.
        """
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            try:
                told = self.ask(path)
            except (OSError, RefusedByFlinkError):
                told = None
            if told is not None and ready(told):
                return told
            time.sleep(POLL_SECONDS)
        raise RuntimeError(f"{what} did not happen within {PATIENCE_SECONDS:g} s")


@contextmanager
def cluster(home: Path, scratch: Path, settings: Mapping[str, str]) -> Iterator[Cluster]:
    """Both processes, with `settings`, as long as the context lasts; logs go to ``scratch/logs``."""
    port, rpc = free_ports(2)
    logs = scratch / "logs"
    logs.mkdir()
    own = {
        **settings,
        "rest.port": str(port),
        "rest.bind-port": str(port),
        "jobmanager.rpc.port": str(rpc),
        "io.tmp.dirs": str(scratch),
    }
    made = Cluster(port=port)
    with ExitStack() as stack:
        stack.push(tell_logs(logs))
        for role in ROLES:
            stack.enter_context(started(home, role, own, logs))
        made.wait("the start of the cluster", "/overview", lambda told: told["taskmanagers"] == 1)
        yield made


@contextmanager
def started(home: Path, role: str, settings: Mapping[str, str], logs: Path) -> Iterator[None]:
    """One process, by the script that comes with Flink; ended politely, then not."""
    given = [part for item in settings.items() for part in ("-D", "=".join(item))]
    script = str(home / "bin" / f"{role}.sh")
    with (logs / f"{role}.txt").open("wb") as log:
        process = subprocess.Popen(
            ["bash", script, "start-foreground", *given],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(home, logs),
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def tell_logs(logs: Path) -> Callable[[Any, Any, Any], None]:
    """Shows the ends of all logs if what follows fails: a variant's error output is kept, its files are not."""

    def tell(kind: Any, error: Any, trace: Any) -> None:
        if error is not None:
            for file in sorted(logs.glob("*.txt")):
                lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
                sys.stderr.write("\n".join([str(file), *lines[-_TAIL_LINES:], ""]))

    return tell


def environment(home: Path, logs: Path) -> dict[str, str]:
    """For Flink's own processes: its Python finds nothing of ours, its logs go to `logs`."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "FLINK_CONF_DIR")}
    own = {"FLINK_HOME": home, "FLINK_LOG_DIR": logs, "FLINK_PID_DIR": logs}
    told = {name: str(path) for name, path in own.items()}
    return {**kept, **told, "HADOOP_CLASSPATH": hadoop_classes()}


def heap_settings(parameters: Parameters) -> dict[str, str]:
    """As many slots as the other side has cores, as much memory as its JVM, and state on the heap."""
    return {
        "taskmanager.numberOfTaskSlots": str(parameters["cores"]),
        "taskmanager.memory.process.size": str(parameters["driver_memory"]),
        # State on the heap is Flink's fastest; it needs no managed memory.
        "taskmanager.memory.managed.fraction": "0.05",
        "execution.checkpointing.dir": f"file://{parameters['scratch']}/checkpoints",
    }


def hadoop_classes() -> str:
    """The archives of Hadoop's client that PySpark brings: Flink's Parquet format needs them and comes without."""
    jars = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar")
    return os.pathsep.join(map(str, sorted(jars)))


def submitted(home: Path, scratch: Path, *, python: Path, script: Path, given: Any) -> str:
    """The id of the job that a script submits with Flink's own Python: ``script GIVEN OUT`` writes it to OUT.

    Raises RuntimeError with the script's own words.
    """
    out = scratch / "job"
    told = subprocess.run(
        # -P: the files beside the script are no modules of its.
        [str(python), "-P", str(script), json.dumps(given), str(out)],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(home, scratch / "logs"),
    )
    if told.returncode != 0:
        raise RuntimeError(f"the job was not submitted:\n{told.stdout}")
    return out.read_text(encoding="utf-8")


def free_ports(count: int) -> list[int]:
    """Ports that are free now."""
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in found:
            each.bind(("localhost", 0))
        return [int(each.getsockname()[1]) for each in found]
