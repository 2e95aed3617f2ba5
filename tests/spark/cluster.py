"""A standalone cluster on loopback addresses: to Spark every worker is a host of its own."""

import os
import re
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.spark.children import environment
from tests.spark.programs import PATIENCE, until

HOME = Path(pyspark.__file__).parent


@contextmanager
def standalone(place, hosts):
    """The URL of a master with one worker of one core per host (`127.0.0.2`, ...)."""
    place.mkdir()
    daemons = []
    try:
        master = daemon(place, "Master", "127.0.0.1", "--port", "0", "--webui-port", "0")
        daemons.append(master)
        url = said(master, r"Starting Spark master at (spark://[\w.]+:\d+)")
        for host in hosts:
            work = ("--cores", "1", "--memory", "1g", "--work-dir", str(place / host))
            daemons.append(daemon(place, "Worker", host, "--webui-port", "0", *work, url))
        for worker in daemons[1:]:
            said(worker, r"(Successfully registered) with master")
        yield url
    finally:
        for process, _ in reversed(daemons):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)


def daemon(place, kind, host, *arguments):
    """A process of the cluster in a group of its own, and its log."""
    log = place / f"{kind}-{host}.log"
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}"]
    more = {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "256m"}
    with log.open("w") as errors:
        process = subprocess.Popen(
            [*command, "--host", host, *arguments],
            stdout=errors,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            env=environment(**more, SPARK_DAEMON_JAVA_OPTS="-XX:TieredStopAtLevel=1"),
            start_new_session=True,
        )
    return process, log


def said(daemon, pattern):
    """What a daemon's log says about something; waits for it."""
    process, log = daemon

    def look():
        assert process.poll() is None, log.read_text()
        return re.search(pattern, log.read_text())

    return until(look, f"{log.name} says {pattern}").group(1)
