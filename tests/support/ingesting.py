"""An ingest log to write to and to read, a server of one, and a producer."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa

from rechannel.ingest.producers import Numbered
from rechannel.ingest.server import IngestServer, open_log, serve_log
from rechannel.ingest.writing import LogWriter, Request
from rechannel.sources.connector import SourceContext
from rechannel.sources.ingest.connector import IngestConnector
from rechannel.sources.reader import SourceReader
from rechannel.state.stores.memory import MemoryStore
from tests.support.asking import PLAIN

SCHEMA = pa.schema([("n", pa.int64())])

PATIENCE = 60.0

NDJSON = {"Content-Type": "application/x-ndjson"}


def rows(numbers: Iterable[int]) -> pa.RecordBatch:
    """One row per number."""
    return pa.record_batch({"n": pa.array([*numbers], pa.int64())})


def writer_of(path: Path, **given: Any) -> LogWriter:
    """A writer of the log at a path, which is made; its clock counts from 1 on."""
    clock = itertools.count(1)
    log = given.pop("log", None) or open_log(str(path), SCHEMA)
    writer = LogWriter(log=log, now_ms=lambda: next(clock), **given)
    writer.open()
    return writer


def posted(numbers: Iterable[int], producer: str | None = None, sequence: int = 0) -> Request:
    """A request of rows."""
    some = rows(numbers)
    if producer is None:
        return Request(rows=some)
    digest = str(some.column("n").to_pylist())
    return Request(
        rows=some, numbered=Numbered(producer=producer, sequence=sequence, digest=digest)
    )


def reader_of(path: Path, **given: Any) -> SourceReader:
    """What the driver reads the log at a path with."""
    connector = IngestConnector(path=str(path), **given)
    return connector.open(SourceContext(store=MemoryStore(), name="in"))


def kept(path: Path) -> list[int]:
    """The numbers in a log, in order, as a job reads them."""
    reader = reader_of(path)
    start = reader.initial()
    end = reader.latest(start, 0)
    layout = reader.layout(start, end)
    splits = reader.split_reader(start, end, layout)
    return [n for one in layout for batch in splits.read(one) for n in batch.column(0).to_pylist()]


class Producer:
    """A client of a server."""

    def __init__(self, server: IngestServer, **headers: str) -> None:
        given = {"Authorization": f"Bearer {server.token}", **NDJSON, **headers}
        self.http = httpx.Client(
            base_url=server.url, headers=given, trust_env=False, timeout=60, verify=PLAIN
        )

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def post(self, body: bytes, headers: Mapping[str, str] | None = None, **query: Any) -> Any:
        """(status, answer) of a body."""
        answer = self.http.post("/rows", content=body, params=query, headers=headers)
        return answer.status_code, answer.json()

    def send(self, numbers: Iterable[int], **query: Any) -> Any:
        """(status, answer) of rows."""
        return self.post(b"\n".join(json.dumps({"n": n}).encode() for n in numbers), **query)

    def get(self, path: str) -> Any:
        """(status, answer) of a route."""
        answer = self.http.get(path)
        return answer.status_code, answer.json()


def serving(path: Path | str, **given: Any) -> IngestServer:
    """Serve the log at a path, which is made."""
    return serve_log(str(path), **{"schema": SCHEMA, "port": 0, **given})


def until(holds: Callable[[], object]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def slow_keeping(server: IngestServer, monkeypatch: Any) -> tuple[threading.Event, threading.Event]:
    """Let keeping wait until the second event is set; the first one says that it has begun."""
    begun, go = threading.Event(), threading.Event()
    keep = type(server.committer.writer).keep

    def waits(writer: LogWriter, requests: Any) -> Any:
        begun.set()
        assert go.wait(PATIENCE)
        return keep(writer, requests)

    monkeypatch.setattr(type(server.committer.writer), "keep", waits)
    return begun, go
