"""NEXMark on Bytewax: one process per core, each of which reads its files of every batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.harness import Parameters
from benchmarks.measurements import BatchMeasurement
from benchmarks.nexmark.events import PER_EPOCH
from benchmarks.nexmark.query import query
from benchmarks.peers.environments import beside, installed
from benchmarks.peers.flink.cluster import free_ports
from benchmarks.variant import report

PACKAGES = ("bytewax==0.21.1", "pyarrow==26.0.1")
POLL_SECONDS = 0.5


def run(parameters: Parameters) -> BatchMeasurement:
    """Run a query to the end of its files. A batch lasts until the next one is begun to be read, the last one until
    everything is out.
    """
    python = installed(beside("bytewax"), *PACKAGES)
    told = [Path(parameters["scratch"]) / f"told-{i}.json" for i in range(parameters["cores"])]
    began = time.time()
    wait(start(python, parameters, told))
    report(f"ended after {time.time() - began:.0f} s")
    return measurement([json.loads(path.read_text(encoding="utf-8")) for path in told], parameters)


def start(
    python: Path, parameters: Parameters, told: Sequence[Path]
) -> list[subprocess.Popen[bytes]]:
    """All processes."""
    addresses = [f"localhost:{port}" for port in free_ports(len(told))]
    out = []
    for number, path in enumerate(told):
        given: dict[str, Any] = {
            "query": parameters["query"],
            "input": parameters["input"],
            "addresses": addresses,
            "process": number,
            "told": str(path),
        }
        # -P: the files beside the script are no modules of its.
        command = [str(python), "-P", str(Path(__file__).with_name("flow.py")), json.dumps(given)]
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        out.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=kept))
    return out


def wait(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Until all have ended; one that fails ends the others. Raises RuntimeError."""
    try:
        while any(process.poll() is None for process in processes):
            if any(process.poll() for process in processes):
                break
            time.sleep(POLL_SECONDS)
    finally:
        for process in processes:
            if process.poll() is None:
                process.terminate()
    codes = [process.wait() for process in processes]
    if any(codes):
        raise RuntimeError(f"Bytewax ended with {codes}")


def measurement(told: Sequence[Parameters], parameters: Parameters) -> BatchMeasurement:
    """Times of batches, out of what all processes tell."""
    late = sum(one["late"] for one in told)
    if late:
        raise RuntimeError(
            f"{late} rows came when their windows were gone: the result is not whole"
        )
    begun = [min(times) for times in zip(*(one["read"] for one in told), strict=True)]
    at = [*begun, max(one["end"] for one in told)]
    rows = sum(PER_EPOCH[kind] for kind in query(parameters["query"]).reads)
    events = parameters["events"] // sum(PER_EPOCH.values()) * rows
    return {"seconds": [b - a for a, b in pairwise(at)], "rows": [events] * len(begun)}
