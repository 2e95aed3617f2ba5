"""Processes that run schedules."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context

import pytest

from tests.property.written_once import each_run_looked_at

_LOOKING = ExitStack()
"""Of a process of the pool, as long as it lives."""


@pytest.fixture(scope="module")
def workers() -> Iterator[ProcessPoolExecutor]:
    """A process per CPU: schedules know nothing of each other."""
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), initializer=_begin) as pool:
        yield pool


def _begin() -> None:
    """Look at every run that is written. What is logged as going wrong is wrong on purpose."""
    _LOOKING.enter_context(each_run_looked_at())
    logging.getLogger("rechannel").setLevel(logging.ERROR)
