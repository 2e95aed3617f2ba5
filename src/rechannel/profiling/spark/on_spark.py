"""Pieces of a trace that are analysed on Spark, as many at a time as it has cores: the driver holds no more of them.

A piece travels to its task and the answer back, so executors need no file of the trace, only this package.
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
    """What applies a function to pieces in tasks of a session. Raises SessionError for one of Spark Connect."""
    if getattr(spark, "_jsparkSession", None) is None:
        msg = "profiles are made on classic sessions: Spark Connect cannot run functions over what is no DataFrame"
        raise SessionError(msg)
    context = spark.sparkContext
    most = min(MAX_PIECES, int(context.defaultParallelism))

    def each(function: Callable[[Piece], Any], pieces: Iterable[Piece]) -> Iterator[Any]:
        left = iter(pieces)
        while some := list(islice(left, most)):
            yield from context.parallelize(some, len(some)).map(function).collect()

    return each
