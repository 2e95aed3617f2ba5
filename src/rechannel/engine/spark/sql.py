"""SQL over the state of a job that runs on Spark: temporary views of a session of their own."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from rechannel.engine.spark.scanning import scan_frame
from rechannel.engine.spark.session.quiet import errors_only_raised
from rechannel.engine.spark.session.session import is_connect
from rechannel.engine.view.pinned import Hold
from rechannel.engine.view.sql import failed, is_told, named
from rechannel.engine.view.state_view import StateView
from rechannel.errors import RefusedError, SessionError

_ONE = threading.Lock()


def answer(
    spark: SparkSession, query: str, view: StateView, take: Callable[[], Hold], timestep: int | None
) -> DataFrame:
    """The answer to a query as a DataFrame; its version is held as long as there is a DataFrame made of it.

    take: holds the version. Nothing is read before an action needs it. Temporary views of the user's session are
    neither seen nor touched; tables of its catalog are there. Raises UnknownOperatorError, RefusedError, NotReadyError,
    SessionError.
    """
    operators = view.operators
    wanted = named(query, operators)
    _check_table_key(wanted)
    own = _own_session(spark)
    hold = take()
    # Every DataFrame that is made of the answer has its session.
    weakref.finalize(own, hold.release)
    scan = partial(scan_frame, own)
    for name, frame in view.frames(wanted, hold.state, timestep, scan).items():
        frame.createOrReplaceTempView(f"`{name}`")
    try:
        with errors_only_raised():
            found = _asked(own, query)
    except AnalysisException as error:
        raise failed(str(error), _missing(error), operators) from error
    return found


def _asked(own: SparkSession, query: str) -> DataFrame:
    if not is_told(query):
        # What begins as a query may go on to write, which Spark does at once: a view is of nothing but a query.
        own.sql(f"EXPLAIN CREATE TEMPORARY VIEW `only a query` AS {query}")
    found = own.sql(query)
    # Spark Connect reports errors only when the schema is requested.
    _ = found.schema
    return found


def _own_session(spark: SparkSession) -> SparkSession:
    """A session without views, with the settings of another one. Raises SessionError."""
    try:
        own = _new_session(spark)
        there = own.conf.getAll
        for key, value in spark.conf.getAll.items():
            if there.get(key) != value and own.conf.isModifiable(key):
                own.conf.set(key, value)
    except (AttributeError, NotImplementedError, PySparkException) as error:
        msg = (
            "SQL over state needs a session of its own, and this Spark session cannot make one"
            f" ({type(error).__name__}: {error}); use job.state(name) and its DataFrames"
        )
        raise SessionError(msg) from error
    return own


def _new_session(spark: SparkSession) -> SparkSession:
    if is_connect(spark):
        return spark.newSession()
    from pyspark import RDD

    with _ONE:
        before = RDD.toDF
        own = spark.newSession()
        # PySpark gives it to the session that was made last, which would hold that for ever.
        RDD.toDF = before  # type: ignore[method-assign]
    return own


def _check_table_key(names: Sequence[str]) -> None:
    """Spark knows no upper and lower case."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            msg = f"SQL cannot tell operators {other!r} and {name!r} apart; use job.state(name)"
            raise RefusedError(msg)


def _missing(error: Any) -> str | None:
    """The table that is not there."""
    if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return None
    name: str = error.getMessageParameters().get("relationName", "of that name")
    return name
