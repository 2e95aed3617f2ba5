"""A served job, and a client of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import endless
from tests.support.asking import client_of
from tests.support.clicks import Clicks


@pytest.fixture
def clicks(tmp_path: Path) -> Iterator[Clicks]:
    """A started job with one timestep; stopped at the end if it still runs."""
    made = Clicks(directory=tmp_path / "state", out=tmp_path / "out")
    made.start()
    made.push([("ann", 1), ("bob", 2)])
    yield made
    made.job_running.stop()


@pytest.fixture
def server(clicks: Clicks) -> Iterator[Any]:
    with clicks.job_running.serve(port=0) as made:
        yield made


@pytest.fixture
def ask(server: Any) -> Iterator[Callable[..., tuple[int, Any]]]:
    """(method, path, body) -> (status, answer)."""
    with client_of(server) as client:

        def call(method: str, path: str, body: object = None) -> tuple[int, Any]:
            answer = client.request(method, path, json=body)
            return answer.status_code, answer.json()

        yield call


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[Any, Any]]:
    """A served job whose input never ends."""
    job = endless.start(tmp_path / "state")
    try:
        with job.serve(port=0) as server:
            yield job, server
    finally:
        job.stop()
