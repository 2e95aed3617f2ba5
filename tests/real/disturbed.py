"""A job by spark-submit on a cluster that is disturbed: a live rescale, a killed executor, the exact result."""

from __future__ import annotations

import json
import re
import signal
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pyarrow.parquet as pq

from tests.spark.programs import PATIENCE
from tests.spark.submitting import Submitted, program

T = TypeVar("T")
ROWS, PER_TIMESTEP = 60_000, 1_000
TOKEN = "token-of-the-test-token-of-the-test"


def ask(url: str, path: str, body: object = None) -> Any:
    """Make a request to the job."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    request = urllib.request.Request(url + path, data, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def until(reached: Callable[[], T], running: Submitted, what: str) -> T:
    """Wait for something while the job runs; what came of it."""
    end = time.monotonic() + PATIENCE
    while not (found := reached()):
        assert running.process.poll() is None, running.said()[-4_000:]
        assert time.monotonic() < end, f"in vain: {what}"
        time.sleep(0.1)
    return found


def executors(backend: str) -> list[psutil.Process]:
    """JVMs of executors on this machine. backend: their main class, without its package."""
    found = []
    for process in psutil.process_iter(["cmdline", "name"]):
        line = " ".join(process.info["cmdline"] or [])
        if process.info["name"] == "java" and backend in line:
            found.append(process)
    return found


def results(place: Path) -> tuple[dict[int, tuple[int, int]], set[str]]:
    """The last count and sum of each key; and the prefixes of the Pythons that computed them."""
    found, places = {}, set()
    for folder in sorted((place / "out").glob("timestep=*")):
        for file in folder.glob("*.parquet"):
            for row in pq.ParquetFile(file).read().to_pylist():
                found[row["k"]] = (row["n"], row["s"])
                places.add(row["at"].split("\t")[1])
    return found, places


def expected(rows: int) -> dict[int, tuple[int, int]]:
    """What `results` has to find."""
    numbers = range(rows)
    return {k: (len(numbers[k::7]), sum(numbers[k::7])) for k in range(7)}


def disturbed(
    place: Path, options: list[str], environment: dict[str, str | None], backend: str
) -> set[str]:
    """Run the job, rescale it, kill one of its two executors, and end it by SIGTERM.

    Returns the prefixes of the Pythons that ran its tasks.
    """
    path = program(place, rows=ROWS, per_timestep=PER_TIMESTEP, more=", rows_per_second=1_500")
    arguments = ["run", str(path), "--serve", "127.0.0.1:0"]
    running = Submitted(place, options, arguments, {**environment, "RECHANNEL_TOKEN": TOKEN})
    try:
        running.until_said("serving it at")
        served = re.search(r"serving it at (http://\S+)", running.said())
        assert served is not None
        running.until_committed(3)
        until(lambda: len(executors(backend)) == 2, running, "two executors")
        _rescale(served[1], running)
        _lose_one(served[1], running, backend)
        until(lambda: _read(place) == ROWS, running, "all rows are read")
        running.send(signal.SIGTERM)
        assert running.ended() == 0, running.said()[-4_000:]
    finally:
        running.kill()
    found, places = results(place)
    assert found == expected(ROWS)
    return places


def _rescale(url: str, running: Submitted) -> None:
    body = {"change": {"kind": "rescale", "operator": "sums", "tasks": 4}}
    made = ask(url, "/reconfigure", body)["id"]
    done = until(
        lambda: (one := ask(url, f"/reconfigurations/{made}"))["phase"] == "done" and one,
        running,
        "the rescale is done",
    )
    assert done["bins"] > 0
    assert ask(url, "/status")["operators"]["sums"]["tasks"] == 4


def _lose_one(url: str, running: Submitted, backend: str) -> None:
    before = ask(url, "/status")["timestep"]
    assert before < ROWS // PER_TIMESTEP
    victims = executors(backend)
    victims[0].kill()
    victims[0].wait(60)
    assert not victims[0].is_running()
    until(lambda: ask(url, "/status")["timestep"] >= before + 3, running, "it goes on")
    others = until(
        lambda: len(now := executors(backend)) == 2 and now, running, "another executor comes"
    )
    assert {one.pid for one in others or []} != {one.pid for one in victims}


def _read(place: Path) -> int:
    return sum(n for n, _ in results(place)[0].values())
