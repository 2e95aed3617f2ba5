"""Rows posted over HTTP while servers, drivers and producers are killed: each is in the result once."""

from __future__ import annotations

import json
import os
import random
import re
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
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from tests.spark.children import environment
from tests.spark.programs import journal_of, run, session, until

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
    done = Path(place) / "sent"
    spark = session(place)
    flow = flows(place, per_timestep)
    if not done.exists():
        job = rc.Job("ingest", flow, state=f"{place}/state", settings=rc.Settings(interval_ms=100))
        running = job.start(spark)
        while not done.exists():
            running.await_termination(0.05)
        running.stop()
    job_done = run(spark, flow, f"{place}/state", name="ingest", in_flight=2)
    return job_done.status.timestep or 0


class Server:
    """`rechannel ingest` in a process of its own, at a fixed port, that is killed and started again."""

    def __init__(self, place: Path, port: int, log: str) -> None:
        self.place, self.port, self.log = place, port, log
        self.url = f"http://127.0.0.1:{port}"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        program = "from rechannel.cli import main; main()"
        command = [sys.executable, "-c", program, "ingest", self.log, "--schema", COLUMNS]
        given = ["--port", str(self.port), "--token-file", str(self.place / "token")]
        self.process = subprocess.Popen(
            [*command, *given], stderr=subprocess.PIPE, text=True, env=environment()
        )
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert "taking rows" in line, line + self.process.stderr.read()

    def kill(self) -> None:
        assert self.process is not None
        assert self.process.poll() is None, "the server had ended by itself"
        self.process.kill()
        assert self.process.wait() == -signal.SIGKILL

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def sender(place: str, name: str, urls: list[str], requests: int, seed: int) -> None:
    """A producer: goes on after the last request that was kept, repeats what is not acknowledged, and some that is."""
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
    while sequence <= requests:
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
        time.sleep(choose.uniform(0, 0.02))


def sizes(name: str, sequence: int) -> int:
    """Rows of a request, always the same."""
    return 1 + (hash_of(name) + sequence * 31) % 17


def hash_of(name: str) -> int:
    return sum(name.encode())


class Senders:
    """Processes of producers, each of which is started again when it was killed."""

    def __init__(self, place: Path, urls: list[str], names: list[str], requests: int) -> None:
        self.place, self.urls, self.names, self.requests = place, urls, names, requests
        self.processes = {name: self._start(name) for name in names}

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        given = [str(self.place), name, self.urls, self.requests, hash_of(name)]
        program = f"from tests.real.test_ingest_job import sender; sender(*{given!r})"
        log = (self.place / f"{name}.err").open("ab")
        with log:
            return subprocess.Popen(
                [sys.executable, "-c", program], stderr=log, env=environment()
            )

    def kill(self, name: str) -> bool:
        """Kill a producer if it has not come to its end, and start it again."""
        process = self.processes[name]
        if process.poll() is not None:
            return False
        process.kill()
        process.wait()
        self.processes[name] = self._start(name)
        return True

    @property
    def running(self) -> bool:
        return any(process.poll() is None for process in self.processes.values())

    def wait(self) -> None:
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


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_servers_drivers_and_producers_are_killed(child, tmp_path, kills):
    names, requests = ["ann", "bob", "eve"], 60 * kills
    (tmp_path / "token").write_text(TOKEN)
    servers = [Server(tmp_path, free_port(), str(tmp_path / "log")) for _ in range(2)]
    servers[0].start()
    servers[1].start()
    senders = Senders(tmp_path, [one.url for one in servers], names, requests)
    choose, state = random.Random(kills), tmp_path / "state"
    stop = threading.Event()
    killed = Counter[str]()

    def restart_servers() -> None:
        while not stop.wait(choose.uniform(0.5, 2.0)):
            server = choose.choice(servers)
            server.kill()
            killed["server"] += senders.running
            time.sleep(choose.uniform(0, 0.3))
            server.start()

    disturbing = threading.Thread(target=restart_servers)
    disturbing.start()
    try:
        interrupted = 0
        for number in range(kills):
            epoch = journal_of(state).epoch if state.exists() else 0
            driver = child(drive, place=str(tmp_path), per_timestep=200)

            def committed(epoch: int = epoch, driver=driver) -> bool:
                assert driver.running, driver.errors()
                if not state.exists():
                    return False
                known = journal_of(state)
                return known.epoch > epoch and bool(known.last_committed)

            until(committed, "a driver commits")
            time.sleep(choose.uniform(0, 1.0))
            killed["producer"] += senders.kill(names[number % len(names)])
            assert driver.running, driver.errors()
            assert driver.kill() == -signal.SIGKILL
            after = journal_of(state)
            assert not after.closed, "the driver had ended of its own will"
            interrupted += bool(after.open_intents or after.unpublished)
        senders.wait()
    finally:
        stop.set()
        disturbing.join()
        senders.close()
    (tmp_path / "sent").touch()
    try:
        assert child(drive, place=str(tmp_path), per_timestep=200).result() > 0
    finally:
        for server in servers:
            server.close()
    facts = senders.facts()
    print(dict(killed), dict(facts), "drivers interrupted:", interrupted)
    assert killed["server"], "no server was killed while producers sent"
    assert killed["producer"], "no producer was killed while it sent"
    assert facts["again"], "no producer had to send again"
    check(tmp_path, names, requests)


def check(place: Path, names: list[str], requests: int) -> None:
    """Every row is there exactly once."""
    totals = {name: sum(sizes(name, n) for n in range(1, requests + 1)) for name in names}
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


def test_a_bucket_holds_the_log(s3, tmp_path, monkeypatch):
    """The same log in a bucket, written by two servers, read by a job."""
    from rechannel.ingest.server import serve_log
    from rechannel.job import InProcess
    from rechannel.model.ddl import schema_of
    from tests.support.ingesting import Producer

    url = f"{s3.url}/ingest"
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    with (
        serve_log(url, schema=schema_of("n BIGINT"), port=0) as one,
        serve_log(url, port=0) as other,
        Producer(one) as to_one,
        Producer(other) as to_other,
    ):
        for n in range(1, 21):
            assert to_one.send([n], producer="p", sequence=n)[1]["repeated"] is False
            assert to_other.send([n], producer="p", sequence=n)[1]["repeated"] is True
    stream = rc.read().ingested(url, per_timestep=7, name="in")
    job = rc.Job("j", stream.write.memory("out"), state=tmp_path / "state")
    running = job.start(in_process=InProcess())
    running.process_all_available()
    assert running.status.timestep == 3
    assert sorted(running.memory("out")["n"].to_pylist()) == [*range(1, 21)]
    running.stop()
