"""`rc.profile`, `rc.profile_session`: what a notebook calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rechannel.dataflow.durations import Duration, microseconds
from rechannel.errors import DataflowError, SetUpError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rechannel.profiling.model.analysis import Analysis
    from rechannel.profiling.watch import Watch

INSTALL = "pip install 'rechannel[profile]'"


def profile(
    log: str | Path,
    *,
    window: Duration = "1 second",
    threshold: Duration = 0,
    query: str | None = None,
    since: Duration = 0,
    until: Duration | None = None,
    strict: bool = False,
    spark: SparkSession | None = None,
) -> Analysis:
    """Why an application is slow: critical participation of a Spark event log, of the telemetry of a job (its state
    directory, or the directory `telemetry` in it), or of a trace (docs/formats/trace.md).

    window: of which length the parts are that are looked at one by one; "batch" for one per batch of a stream, which
    `query` names if there are several. threshold: gaps that are shorter belong to what is beside them. since, until:
    which part of it, from its begin. strict: refuse a log with bad lines, which are otherwise skipped and noted.
    spark: a session on which windows are analysed in parallel; its workers need this package, with `profile`.
    The answer has `findings`, in words; `profile.by_activity()`, `by_worker()`, `by_operator()`, `by_channel()` and
    `over_time(...)`, polars frames with the share of the critical path and of all time; and `notes`.
    Raises TraceError for what is no log, SessionError for a session of Spark Connect, SetUpError where packages are
    missing.
    """
    size = None if window == "batch" else microseconds(window, "window of a profile") / 1e6
    shortest = microseconds(threshold, "threshold of a profile", least=0) / 1e6
    first = microseconds(since, "begin of a profile", least=0) / 1e6
    last = None if until is None else microseconds(until, "end of a profile") / 1e6
    try:
        from rechannel.profiling.model.analysis import ProfileOptions
        from rechannel.profiling.reading import analyse_file
        from rechannel.profiling.spark.on_spark import on_spark
        from rechannel.profiling.threads import in_threads
    except ImportError as error:
        msg = f"profiles need packages that are not there ({error.name}): {INSTALL}"
        raise SetUpError(msg) from error
    asked = ProfileOptions(window=size, threshold=shortest, query=query, since=first, until=last)
    each = in_threads if spark is None else on_spark(spark)
    return analyse_file(log, asked, strict=strict, each=each)


def profile_session(
    spark: SparkSession,
    *,
    window: Duration = "5 seconds",
    tell: Callable[[Analysis], None] | None = None,
    keep: int = 120,
) -> Watch:
    """Profile a session while it runs, window by window, in a thread of its own, until `stop()`.

    `for found in rc.profile_session(spark)` waits for one window after the other; `latest` and `windows` have what was
    seen, `profile()` all of it as one. Nothing is installed in Spark: its status store is asked once per window, also
    with the web interface off. What Spark forgot before it was asked is counted in `notes`.
    window: length of a window. tell: called with every window. keep: how many windows are kept.
    Raises SessionError for a session of Spark Connect, SetUpError where packages are missing.
    """
    length = microseconds(window, "window of a profile", least=100_000) // 1_000
    if keep < 1:
        msg = f"a watch keeps one window at least, not {keep}"
        raise DataflowError(msg)
    try:
        from rechannel.profiling.spark.live import LiveSession
        from rechannel.profiling.watch import Watch
    except ImportError as error:
        msg = f"profiles need packages that are not there ({error.name}): {INSTALL}"
        raise SetUpError(msg) from error
    return Watch(live=LiveSession.of(spark), window_ms=length, tell=tell, keep=keep)
