"""A cluster whose hosts fail at a stated time, and what the driver of a stream learns of it. For every side.

Hosts are network namespaces of this machine (`rechannel.testing.namespaces`), so that one can lose power without a
word, or be cut off.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

import rechannel as rc
from benchmarks.harness import Parameters
from benchmarks.process import REPOSITORY
from benchmarks.session import shared_settings
from benchmarks.variant import report
from rechannel.engine.spark.cluster import spark_cluster
from rechannel.engine.spark.session.recovery import WORKER_TIMEOUT
from rechannel.testing.namespaces import Namespaces, namespaces

POLL_SECONDS = 0.02
PATIENCE_SECONDS = 120.0
SLOW_STEP_SECONDS = 0.1
SLOW_SHARE = 0.2
"""Of the time that a slow host runs."""
EXECUTOR = "CoarseGrainedExecutorBackend"


@contextmanager
def failing_cluster(parameters: Parameters) -> Iterator[Namespaces]:
    """Return the cluster as long as the context lasts; each host has one core, which no other uses."""
    environment = {"PYTHONPATH": path()}
    if parameters["recovery"] == "fast":
        timeout = f"-Dspark.worker.timeout={WORKER_TIMEOUT}"
        environment |= {"SPARK_MASTER_OPTS": timeout, "SPARK_WORKER_OPTS": timeout}
    place = Path(parameters["scratch"]) / "cluster"
    memory = parameters["host_memory_mb"]
    with namespaces(
        place, parameters["hosts"], memory_mb=memory, environment=environment, apart=True
    ) as cluster:
        yield cluster


def path() -> str:
    """Return what executors import the benchmarks and Rechannel from."""
    return os.pathsep.join((str(REPOSITORY / "src"), str(REPOSITORY)))


def failing_session(cluster: Namespaces, parameters: Parameters) -> Any:
    """Return a session on the cluster, with all executors there."""
    shared = shared_settings({**parameters, "cores": 1})
    del shared["spark.master"]
    named: dict[str, Any] = {name.replace(".", "__"): value for name, value in shared.items()}
    spark = rc.session(
        cluster.url,
        recovery=parameters["recovery"],
        speculation=parameters["speculation"],
        **{**named, **cluster.settings},
        spark__executor__memory=f"{parameters['host_memory_mb'] - 200}m",
        spark__executorEnv__PYTHONPATH=path(),
        spark__python__daemon__module="rechannel.engine.spark.daemon",
    )
    until = time.monotonic() + PATIENCE_SECONDS
    while len(executors(spark)) < parameters["hosts"]:
        if time.monotonic() > until:
            raise RuntimeError(f"executors did not come within {PATIENCE_SECONDS:g} s")
        time.sleep(POLL_SECONDS)
    return spark


def executors(spark: Any) -> dict[str, str]:
    """Return the hosts of the executors that the driver knows, by their ids."""
    return {each.id: each.host for each in spark_cluster(spark).executors()}


class Failing:
    """Lets hosts fail in a thread of its own, and writes down when, and when the driver's Spark knew of it."""

    def __init__(self, spark: Any, cluster: Namespaces, parameters: Parameters) -> None:
        """Do nothing yet."""
        self.failed_ns: int | None = None
        self.known_ns: int | None = None
        self.happened = 0
        self._spark, self._cluster, self._parameters = spark, cluster, parameters
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: BaseException | None = None

    def start(self) -> None:
        """Count from now."""
        self._thread.start()

    def told(self) -> dict[str, Any]:
        """Return what happened. Raises RuntimeError if it did not."""
        self._thread.join(PATIENCE_SECONDS)
        if self._error is not None:
            raise RuntimeError("the fault was not brought about") from self._error
        if not self.happened:
            raise RuntimeError("nothing failed")
        return {"failed_ns": self.failed_ns, "known_ns": self.known_ns, "failed": self.happened}

    def _run(self) -> None:
        try:
            self._fail()
        except BaseException as error:
            self._error = error

    def _fail(self) -> None:
        parameters = self._parameters
        time.sleep(parameters["warmup_seconds"] + parameters["before_seconds"])
        hosts = self._cluster.hosts[: parameters["failures"]]
        before = executors(self._spark)
        self.failed_ns = time.time_ns()
        report(f"{parameters['fault']}: {', '.join(hosts)}")
        for host in hosts:
            FAULTS[parameters["fault"]](self._cluster, host, parameters)
            self.happened += 1
        if parameters["fault"] == "slow":
            return
        lost = {name for name, host in before.items() if host in hosts}
        until = time.monotonic() + PATIENCE_SECONDS
        while lost & executors(self._spark).keys():
            if time.monotonic() > until:
                return
            time.sleep(POLL_SECONDS)
        self.known_ns = time.time_ns()


def kill_executor(cluster: Namespaces, host: str, parameters: Parameters) -> None:
    """Kill (SIGKILL) the executors of a host."""
    del parameters
    killed = 0
    for process in executors_on(cluster, host):
        process.kill()
        killed += 1
    if not killed:
        raise RuntimeError(f"no executor runs on {host}")


def executors_on(cluster: Namespaces, host: str) -> list[psutil.Process]:
    """Return the executors of a host."""
    return [each for each in processes_on(cluster, host) if EXECUTOR in words_of(each)]


def processes_on(cluster: Namespaces, host: str) -> list[psutil.Process]:
    """Return all processes of a host."""
    out = []
    for number in cluster.network.processes(host):
        with suppress(psutil.NoSuchProcess):
            out.append(psutil.Process(number))
    return out


def words_of(process: psutil.Process) -> str:
    """Return the command line of a process; empty for one that has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def lose_power(cluster: Namespaces, host: str, parameters: Parameters) -> None:
    """End a host for good, without a word."""
    del parameters
    cluster.lose_power(host)


def cut_off(cluster: Namespaces, host: str, parameters: Parameters) -> None:
    """Cut a host off from the driver, and let it come back."""
    network = cluster.network
    network.cut(host, network.driver)
    threading.Timer(parameters["cut_seconds"], network.heal, (host, network.driver)).start()


def slow_down(cluster: Namespaces, host: str, parameters: Parameters) -> None:
    """Let a host run only a share of the time, until its executors are gone."""
    del parameters

    def stutter() -> None:
        while cluster.network.processes(host):
            for number, share in ((signal.SIGSTOP, 1 - SLOW_SHARE), (signal.SIGCONT, SLOW_SHARE)):
                for process in cluster.network.processes(host):
                    with suppress(ProcessLookupError):
                        os.kill(process, number)
                time.sleep(share * SLOW_STEP_SECONDS)

    threading.Thread(target=stutter, daemon=True).start()


FAULTS: Mapping[str, Callable[[Namespaces, str, Parameters], None]] = {
    "executor": kill_executor,
    "host": lose_power,
    "cut": cut_off,
    "slow": slow_down,
}
"""By the name that parameters have for them."""
