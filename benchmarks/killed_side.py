"""Rechannel's side of `billion`: a driver is killed while it runs, and its job is started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.harness import Measurement, Parameters
from benchmarks.live_program import SOURCE, start
from benchmarks.live_side import PATIENCE_SECONDS, started, take_template
from benchmarks.rechannel_side import commits
from benchmarks.two_hosts import cluster, session
from benchmarks.variant import report

POLL_SECONDS = 0.5


def killed(parameters: Parameters) -> Measurement:
    """SIGKILL a driver with its JVM while timesteps run, and start another one at once. The hosts stay.

    Returns the seconds from the signal to the first commit of the new driver, `down_seconds`: with the start of Python
    and of the JVM, and with the rows that were due in the meantime.
    """
    take_template(parameters)
    with cluster(parameters) as made:
        with driver("first", made.url, parameters) as process:
            wait_for_commit(process, parameters, after_ns=0)
            report("running")
            time.sleep(parameters["warmup_seconds"] + parameters["before_seconds"])
            if process.poll() is not None:
                raise RuntimeError("the job ended by itself")
            before = time.time_ns()
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        report("killed")
        with driver("again", made.url, parameters) as process:
            first = wait_for_commit(process, parameters, after_ns=before)
            report("it commits again")
            time.sleep(parameters["after_seconds"])
    known = commits(parameters, SOURCE)
    return {
        "rate": parameters["rate"],
        "down_seconds": (first - before) / 1e9,
        "timesteps_before": sum(at <= before for *_, at in known),
        "timesteps_after": sum(at > before for *_, at in known),
    }


@contextmanager
def driver(part: str, url: str, parameters: Parameters) -> Iterator[subprocess.Popen[bytes]]:
    """A driver in a process group of its own, until it is killed."""
    command = [sys.executable, "-m", "benchmarks.killed_side", part, url, json.dumps(parameters)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for_commit(
    process: subprocess.Popen[bytes], parameters: Parameters, *, after_ns: int
) -> int:
    """Wait for the first commit with rows after a time; when it was, in ns since 1970."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < give_up:
        for first, last, at in commits(parameters, SOURCE):
            if at > after_ns and last > first:
                return at
        if process.poll() is not None:
            raise RuntimeError("the job ended by itself")
        time.sleep(POLL_SECONDS)
    raise RuntimeError("the job committed nothing")


def main(argv: Sequence[str]) -> None:
    """A driver; see `driver`."""
    part, url, text = argv
    parameters = json.loads(text)
    spark = session(url, parameters)
    job = (started if part == "first" else start)(spark, parameters)
    job.await_termination()


if __name__ == "__main__":
    main(sys.argv[1:])
