"""One run of one variant in a process of its own, watched: progress, memory, time limit, errors."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.harness import Failure, Measurement, Variant
from benchmarks.memory import MemoryPeak

REPOSITORY = Path(__file__).resolve().parent.parent
TAIL_LINES = 30
SAMPLE_SECONDS = 1.0
GRACE_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run left behind: a measurement or a failure, and peak memory in bytes by role."""

    variant: str
    measurement: Measurement | None
    failure: Failure | None
    memory: Mapping[str, int]


def run_variant(
    variant: Variant, directory: Path, *, timeout: float, detail: Callable[[str], None]
) -> Run:
    """Run `variant` with ``scratch`` set to a new directory below `directory`; never raises for it.

    Each line that the variant prints goes to `detail`. After `timeout` seconds it is ended and
    counts as failed.
    """
    scratch = directory / "scratch"
    scratch.mkdir(parents=True)
    result, errors = directory / "result.json", directory / "stderr.txt"
    parameters = {**variant.parameters, "scratch": str(scratch)}
    memory = MemoryPeak()
    with errors.open("wb") as stderr:
        process = subprocess.Popen(
            command(variant, json.dumps(parameters), result),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment(os.environ),
            text=True,
            # A session of its own: its processes can be found and ended together.
            start_new_session=True,
        )
        try:
            reason = watch(process, memory, timeout=timeout, detail=detail)
        finally:
            if process.poll() is None:
                end(process)
    if reason is None and not result.exists():
        reason = "ended without a result"
    if reason is not None:
        failure = Failure(variant=variant.name, reason=reason, stderr_tail=tail(errors))
        return Run(variant=variant.name, measurement=None, failure=failure, memory=memory.bytes)
    measurement: Measurement = json.loads(result.read_text(encoding="utf-8"))
    return Run(variant=variant.name, measurement=measurement, failure=None, memory=memory.bytes)


def command(variant: Variant, parameters: str, result: Path) -> list[str]:
    """The command line of the variant's process."""
    python = [sys.executable, "-m", "benchmarks.variant"]
    return [*python, variant.function, parameters, str(result), *map(str, variant.cpus)]


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """This package and this interpreter, for the variant and for the workers that Spark starts."""
    paths = [str(REPOSITORY), inherited.get("PYTHONPATH", "")]
    return {
        **inherited,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def watch(
    process: subprocess.Popen[str],
    memory: MemoryPeak,
    *,
    timeout: float,
    detail: Callable[[str], None],
) -> str | None:
    """Wait for the end of `process`; the reason if it is to count as failed, else None."""
    stdout = process.stdout
    if stdout is None:
        raise ValueError("the process must be started with its standard output in a pipe")
    reader = threading.Thread(target=pass_on, args=(stdout, detail), daemon=True)
    reader.start()
    deadline = time.monotonic() + timeout
    while True:
        memory.sample(process.pid)
        try:
            code = process.wait(SAMPLE_SECONDS)
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                return f"did not end within {timeout:g} s"
            continue
        # The JVM holds the other end of the pipe: once it closes, nothing disturbs the next run.
        reader.join(GRACE_SECONDS)
        return None if code == 0 else f"exit code {code}"


def pass_on(stdout: IO[str], detail: Callable[[str], None]) -> None:
    """Hand every line of `stdout` to `detail`, then close it."""
    with stdout:
        for line in stdout:
            if line.strip():
                detail(line.strip())


def end(process: subprocess.Popen[str]) -> None:
    """End a running variant with its JVM (Spark's Python workers follow): politely, then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
            return


def tail(errors: Path) -> str:
    """The last lines of a variant's error output."""
    lines = errors.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-TAIL_LINES:])
