"""A log, a server of it, and a producer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rechannel.ingest.server import IngestServer
from tests.support.ingesting import Producer, serving


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def server(path: Path) -> Iterator[IngestServer]:
    with serving(path) as made:
        yield made


@pytest.fixture
def producer(server: IngestServer) -> Iterator[Producer]:
    with Producer(server) as made:
        yield made
