"""Processes that run schedules."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest


@pytest.fixture(scope="module")
def workers() -> Iterator[ProcessPoolExecutor]:
    """A process per CPU: schedules know nothing of each other."""
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), initializer=_quiet) as pool:
        yield pool


def _quiet() -> None:
    """What is logged as going wrong is wrong on purpose."""
    logging.getLogger("rechannel").setLevel(logging.ERROR)
