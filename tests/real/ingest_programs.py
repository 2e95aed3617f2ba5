"""Servers and producers of an ingest log in processes of their own, a job that reads it, and what must come of it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq

import rechannel as rc
from rechannel import aggregates as agg
from tests.real.components.kafka import free_port
from tests.spark.children import environment
from tests.spark.programs import PATIENCE, session, start, until

TOKEN = "s3cret"
USERS = 53
COLUMNS = "producer STRING, number BIGINT, user BIGINT"


def flows(place: str, per_timestep: int) -> list[Any]:
    """Every row again, and totals per user."""
    rows = rc.read().ingested(f"{place}/log", per_timestep=per_timestep, name="in")
    totals = rows.key_by("user").aggregate(n=agg.count(), sum=agg.sum("number"), name="totals")
    copies = rows.select("producer", "number", name="copies")
    return [
        totals.write.parquet(f"{place}/totals", name="to-totals"),
        copies.write.parquet(f"{place}/copies", name="to-copies"),
    ]


def drive(place: str, per_timestep: int) -> int:
    """Process rows until all that was sent has come."""
    spark = session(place)
    job = start(spark, flows(place, per_timestep), f"{place}/state", name="ingest", in_flight=2)
    try:
        while not (Path(place) / "sent").exists():
            job.await_termination(0.05)
        job.process_all_available(PATIENCE)
    finally:
        job.stop(PATIENCE)
    return job.status.timestep or 0


class Server:
    """`rechannel ingest` in a process of its own, at a fixed port, that is killed and started again."""

    def __init__(self, place: Path, port: int, log: str) -> None:
        self.place, self.port, self.log = place, port, log
        self.url = f"http://127.0.0.1:{port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = "from rechannel.cli import main; main()"
        command = [sys.executable, "-c", program, "ingest", self.log, "--schema", COLUMNS]
        given = ["--port", str(self.port), "--token-file", str(self.place / "token")]
        told = self.place / f"server-{self.port}.err"
        with told.open("ab") as errors:
            self.process = subprocess.Popen([*command, *given], stderr=errors, env=environment())

        def well() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, told.read_text()
            try:
                return httpx.get(f"{self.url}/health", trust_env=False).status_code == 200
            except httpx.HTTPError:
                return False

        until(well, "a server answers")

    def kill(self) -> None:
        assert self.process is not None
        assert self.process.poll() is None, "the server had ended by itself"
        self.process.kill()
        assert self.process.wait() == -signal.SIGKILL

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def sender(place: str, name: str, urls: list[str], seed: int) -> None:
    """A producer, until it is enough: goes on after the last request that was kept, repeats what is not acknowledged,
    and some of what is.
    """
    choose = random.Random(seed + os.getpid())
    facts = Path(place) / f"{name}.facts"
    client = httpx.Client(headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False, timeout=10)

    def asked(method: str, path: str, **more: Any) -> Any:
        while True:
            try:
                answer = client.request(method, choose.choice(urls) + path, **more)
            except httpx.HTTPError:
                answer = None
            if answer is not None and answer.status_code == 200:
                return answer.json()
            if answer is not None and answer.status_code not in (429, 503):
                raise AssertionError(answer.text)
            with facts.open("a") as file:
                file.write("again\n")
            time.sleep(0.02)

    sequence = asked("GET", f"/producers/{name}")["sequence"] + 1
    while not (Path(place) / "enough").exists():
        first = sum(sizes(name, n) for n in range(1, sequence))
        numbers = range(first, first + sizes(name, sequence))
        lines = [
            json.dumps({"producer": name, "number": n, "user": n * 7919 % USERS}) for n in numbers
        ]
        more = {
            "content": "\n".join(lines).encode(),
            "params": {"producer": name, "sequence": sequence},
            "headers": {"Content-Type": "application/x-ndjson"},
        }
        repeated = asked("POST", "/rows", **more)["repeated"]
        if choose.random() < 0.1:
            assert asked("POST", "/rows", **more)["repeated"]
        with facts.open("a") as file:
            file.write("repeated\n" if repeated else "new\n")
        sequence += 1
        time.sleep(choose.uniform(0.01, 0.05))
    (Path(place) / f"{name}.last").write_text(str(sequence - 1))


def sizes(name: str, sequence: int) -> int:
    """Rows of a request, always the same."""
    return 1 + (hash_of(name) + sequence * 31) % 17


def hash_of(name: str) -> int:
    return sum(name.encode())


class Servers:
    """Servers of one log, one of which is killed and started again from time to time."""

    def __init__(self, place: Path, choose: random.Random) -> None:
        self.each = [Server(place, free_port(), f"{place}/log") for _ in range(2)]
        self.kills, self._choose, self._stop = 0, choose, threading.Event()
        self._thread = threading.Thread(target=self._disturb)

    @property
    def urls(self) -> list[str]:
        return [one.url for one in self.each]

    def __enter__(self) -> Servers:
        for one in self.each:
            one.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave_alone()
        for one in self.each:
            one.close()

    def leave_alone(self) -> None:
        """Kill no more."""
        self._stop.set()
        self._thread.join()

    def _disturb(self) -> None:
        while not self._stop.wait(self._choose.uniform(0.5, 2.0)):
            one = self._choose.choice(self.each)
            one.kill()
            self.kills += 1
            time.sleep(self._choose.uniform(0, 0.3))
            one.start()


class Senders:
    """Processes of producers, each of which is started again when it was killed."""

    def __init__(self, place: Path, urls: list[str], names: list[str]) -> None:
        self.place, self.urls, self.names = place, urls, names
        self.processes = {name: self._start(name) for name in names}

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        given = [str(self.place), name, self.urls, hash_of(name)]
        program = f"from tests.real.ingest_programs import sender; sender(*{given!r})"
        log = (self.place / f"{name}.err").open("ab")
        with log:
            return subprocess.Popen([sys.executable, "-c", program], stderr=log, env=environment())

    def kill(self, name: str) -> None:
        """Kill a producer and start it again."""
        process = self.processes[name]
        assert process.poll() is None, (self.place / f"{name}.err").read_text()
        process.kill()
        assert process.wait() == -signal.SIGKILL
        self.processes[name] = self._start(name)

    def stop(self) -> None:
        """Let them come to their ends."""
        (self.place / "enough").touch()
        for name, process in self.processes.items():
            assert process.wait(300) == 0, (self.place / f"{name}.err").read_text()

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    def facts(self) -> Counter[str]:
        files = (self.place / f"{name}.facts" for name in self.names)
        return Counter(line for file in files for line in file.read_text().split())


def check(place: Path, names: list[str]) -> None:
    """Every row is there exactly once."""
    totals = dict[str, int]()
    for name in names:
        last = int((place / f"{name}.last").read_text())
        totals[name] = sum(sizes(name, n) for n in range(1, last + 1))
    copies = pq.read_table(place / "copies", partitioning=None).to_pylist()
    found = Counter((row["producer"], row["number"]) for row in copies)
    assert set(found.values()) == {1}
    assert set(found) == {(name, n) for name, total in totals.items() for n in range(total)}
    expected: dict[int, list[int]] = {}
    for total in totals.values():
        for n in range(total):
            of = expected.setdefault(n * 7919 % USERS, [0, 0])
            of[0] += 1
            of[1] += n
    latest: dict[int, list[int]] = {}
    for folder in sorted((place / "totals").glob("timestep=*")):
        for row in pq.read_table(folder, partitioning=None).to_pylist():
            latest[row["user"]] = [row["n"], row["sum"]]
    assert latest == expected
