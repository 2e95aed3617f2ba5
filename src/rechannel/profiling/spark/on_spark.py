"""Analysis of pieces in tasks of a Spark session, as many at a time as it has cores.

A piece travels to its task and the result back, so executors need this package, but no file of the
trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from rechannel.errors import SessionError
from rechannel.profiling.model.pieces import Piece
from rechannel.profiling.model.summaries import MapPieces

MAX_PIECES = 64
"""Pieces that the driver holds at a time."""


def on_spark(spark: Any) -> MapPieces:
    """Return a function that maps pieces in tasks of a session. Raises SessionError for Spark
    Connect.
    """
    if getattr(spark, "_jsparkSession", None) is None:
        msg = (
            "a profile cannot be computed on a Spark Connect session, which runs functions over DataFrames only:"
            " use a classic session"
        )
        raise SessionError(msg)
    context = spark.sparkContext
    most = min(MAX_PIECES, int(context.defaultParallelism))

    def each(function: Callable[[Piece], Any], pieces: Iterable[Piece]) -> Iterator[Any]:
        left = iter(pieces)
        while some := list(islice(left, most)):
            yield from context.parallelize(some, len(some)).map(function).collect()

    return each
