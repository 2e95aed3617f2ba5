"""A session of Spark that lasts as long as a command needs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def own_session(master: str | None, name: str) -> Iterator[SparkSession | None]:
    """Keep a session as long as it is needed; None if there is no master. name: of the application."""
    if master is None:
        yield None
        return
    from rechannel.engine.spark.session.session import session

    made = session(master, name=name)
    try:
        yield made
    finally:
        made.stop()
