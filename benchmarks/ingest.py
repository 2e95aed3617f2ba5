"""Rows per second over HTTP into an ingest log, and how long an acknowledgement takes, by rows of a request.

Producers send one request after the other, each with a number of its own, to one `rechannel ingest` in a process of
its own. What a request waits for is durable: two fsyncs of the disk that the log is on. `fsync` is how long the two
take alone, and the rest is the server's.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.harness import (
    Benchmark,
    Metric,
    Parameters,
    Picture,
    Result,
    Series,
    Workbench,
)

COLUMNS = "user STRING, page STRING, ms BIGINT, amount DOUBLE"
START_S = 60.0
FSYNCS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where a server answers, and what it wants."""

    port: int
    token: str


@contextmanager
def served(place: Path) -> Iterator[Server]:
    """Start `rechannel ingest` on a new log."""
    import rechannel

    place.mkdir()
    token, told = secrets.token_urlsafe(), place / "told"
    (place / "token").write_text(token)
    program = "from rechannel.cli import main; main()"
    given = ["--schema", COLUMNS, "--port", "0", "--token-file", str(place / "token")]
    sources = str(Path(rechannel.__file__).parents[1])
    with told.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", program, "ingest", str(place / "log"), *given],
            stderr=errors,
            env={**os.environ, "PYTHONPATH": sources},
        )
    try:
        yield Server(port=_port(process, told), token=token)
    finally:
        process.terminate()
        process.wait()


def _port(process: subprocess.Popen[bytes], told: Path) -> int:
    deadline = time.monotonic() + START_S
    while "http://" not in (said := told.read_text()):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server did not start: {said}")
        time.sleep(0.02)
    return int(said.partition("http://")[2].split()[0].rpartition(":")[2])


def body(rows: int, seed: int) -> bytes:
    """Return rows as JSON lines, of about 80 bytes each."""
    random = np.random.default_rng(seed)
    users, ms = random.integers(0, 100_000, rows).tolist(), random.integers(0, 1 << 40, rows)
    return b"\n".join(
        json.dumps(
            {"user": f"user-{user}", "page": f"/page/{user % 97}", "ms": at, "amount": at / 7}
        ).encode()
        for user, at in zip(users, ms.tolist(), strict=True)
    )


def send(server: Server, name: str, rows: int, seconds: float) -> list[float]:
    """Send requests of `rows` rows for a while. Returns how long each acknowledgement took, in seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    headers = {
        "Authorization": f"Bearer {server.token}",
        "Content-Type": "application/x-ndjson",
    }
    bodies, took = [body(rows, seed) for seed in range(4)], list[float]()
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        sequence = len(took) + 1
        where = f"/rows?producer={name}&sequence={sequence}"
        connection.request("POST", where, bodies[sequence % len(bodies)], headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"status {answer.status}: {text.decode()}")
        took.append(time.perf_counter() - began)
    connection.close()
    return took


def fsync_ms(place: Path) -> float:
    """Return how long it takes to make a small file and its name durable, in milliseconds; the median."""
    took = list[float]()
    for number in range(FSYNCS):
        began = time.perf_counter()
        for path, flags in ((place / f"f{number}", os.O_CREAT | os.O_WRONLY), (place, os.O_RDONLY)):
            descriptor = os.open(path, flags)
            if flags != os.O_RDONLY:
                os.write(descriptor, b"x" * 1_000)
            os.fsync(descriptor)
            os.close(descriptor)
        took.append(time.perf_counter() - began)
    return float(np.median(took)) * 1e3


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Send requests of each size in turn, with each number of producers."""
    metrics, curves = list[Metric](), list[Series]()
    scratch = Path(bench.scratch)
    metrics.append(Metric(name="fsync", value=fsync_ms(scratch), unit="ms", variant="disk"))
    for producers in parameters["producers"]:
        rates = list[float]()
        for rows in parameters["rows"]:
            bench.progress.step(f"{producers} producers, {rows:,} rows per request")
            with (
                served(scratch / f"{producers}-{rows}") as server,
                ThreadPoolExecutor(producers) as pool,
            ):
                names = [f"p{number}" for number in range(producers)]
                sent = [
                    pool.submit(send, server, name, rows, parameters["seconds"]) for name in names
                ]
                took = np.array([each for one in sent for each in one.result()])
            rates.append(len(took) * rows / parameters["seconds"])
            variant = f"{producers} producers, {rows:,} rows"
            metrics.append(Metric(name="rate", value=rates[-1], unit="rows/s", variant=variant))
            metrics += [
                Metric(
                    name=f"acknowledged, p{share}",
                    value=float(np.percentile(took, share)) * 1e3,
                    unit="ms",
                    variant=variant,
                )
                for share in (50, 99)
            ]
        sizes = tuple(map(float, parameters["rows"]))
        curves.append(Series(label=f"{producers} producers", x=sizes, y=tuple(rates)))
    return Result(
        parameters=parameters,
        metrics=tuple(metrics),
        ratios={},
        picture=Picture(
            title="rows that are durable and acknowledged",
            x_label="rows per request",
            y_label="rows/s",
            series=tuple(curves),
            log_x=True,
            log_y=True,
        ),
    )


BENCHMARK = Benchmark(
    name="ingest",
    purpose="rows per second over HTTP into an ingest log, and the latency of an acknowledgement",
    defaults={"producers": [1, 4, 16], "rows": [1, 100, 10_000], "seconds": 20.0},
    quick={"producers": [4], "rows": [1, 100, 10_000], "seconds": 3.0},
    run=run,
)
