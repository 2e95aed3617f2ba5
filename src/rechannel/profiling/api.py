"""`rc.profile`, `rc.compare_profiles` and `rc.profile_session`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rechannel.dataflow.graph.durations import Duration, microseconds
from rechannel.errors import DataflowError, SetUpError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rechannel.profiling.job.shares import CriticalShares
    from rechannel.profiling.model.analysis import Analysis
    from rechannel.profiling.model.comparison import Comparison
    from rechannel.profiling.watch import Watch
    from rechannel.telemetry.events import Event

INSTALL = "pip install 'rechannel[profile]'"


def profile(
    log: str | Path,
    *,
    window: Duration | None = None,
    threshold: Duration = 0,
    query: str | None = None,
    since: Duration = 0,
    until: Duration | None = None,
    strict: bool = False,
    spark: SparkSession | None = None,
) -> Analysis:
    """Explain why an application is slow, by critical participation.

    Reads a Spark event log, the telemetry of a job (its state directory, or the directory
    `telemetry` in it), or a trace (docs/formats/trace.md).

    Args:
        log: path of the log, directory or trace.
        window: length of the windows that are analysed one by one; "batch" for one window per
            batch of a stream. By default windows are what the application does: batches,
            timesteps, or jobs and the time between them.
        threshold: gaps shorter than this belong to the activities next to them.
        query: the stream whose batches are windows, if there are several.
        since: start of the part to analyse, from the beginning of the log.
        until: end of the part to analyse, from the beginning of the log.
        strict: raise on a bad line instead of skipping and noting it.
        spark: a session on which windows are analysed in parallel; its workers need this package
            with the extra `profile`.

    Returns an object with `findings`, in words; `profile.by_activity()`, `by_worker()`,
    `by_operator()`, `by_channel()` and `over_time(...)`, polars frames with the share of the
    critical path and of all time; `gain(worker=...)`, how many seconds shorter the run would be
    without a worker, an operator, an activity or a channel; and `notes`.

    Raises TraceError if the path is not a log, SessionError for a session of Spark Connect,
    SetUpError if packages are missing or temporary files cannot be written.
    """
    size: float | Literal["batch"] | None = None
    if window is not None:
        size = "batch" if window == "batch" else microseconds(window, "window of a profile") / 1e6
    shortest = microseconds(threshold, "threshold of a profile", least=0) / 1e6
    first = microseconds(since, "start of a profile", least=0) / 1e6
    last = None if until is None else microseconds(until, "end of a profile") / 1e6
    try:
        from rechannel.profiling.model.analysis import ProfileOptions
        from rechannel.profiling.reading import analyse_file
        from rechannel.profiling.report.notebook import notebook_html
        from rechannel.profiling.spark.on_spark import on_spark
        from rechannel.profiling.threads import in_threads
    except ImportError as error:
        raise _missing(error) from error
    asked = ProfileOptions(window=size, threshold=shortest, query=query, since=first, until=last)
    each = in_threads if spark is None else on_spark(spark)
    return replace(analyse_file(log, asked, strict=strict, each=each), page=notebook_html)


def compare_profiles(a: Analysis, b: Analysis) -> Comparison:
    """Compare two runs of one application: what got slower or faster from A to B.

    Operators are matched by their names (nodes of the plan, call sites), not by numbers of stages. If both were
    profiled by batches, the mean batch of A is compared with that of B.

    Returns an object with `text`, whole sentences; `difference` (seconds) and `slower` (a share of A); `by_operator`
    and `by_activity`, polars frames whose seconds add up to the lengths of the runs; and `notes`.
    """
    from rechannel.profiling.model import comparison

    return comparison.compare_profiles(a, b)


def profile_session(
    spark: SparkSession,
    *,
    window: Duration = "5 seconds",
    tell: Callable[[Analysis], None] | None = None,
    keep: int = 120,
) -> Watch:
    """Profile a session while it runs, window by window, in a background thread, until `stop()`.

    Iterating over the result waits for one window after the other; `latest` and `windows` hold
    what was seen, `profile()` combines it. Nothing is installed in Spark: its status store is
    queried once per window, even without the web interface. What Spark dropped before a query is
    counted in `notes`.

    Args:
        spark: a classic session.
        window: length of a window.
        tell: called with every window.
        keep: number of windows that are kept.

    Raises SessionError for a session of Spark Connect, SetUpError if packages are missing.
    """
    length = microseconds(window, "window of a profile", least=100_000) // 1_000
    if keep < 1:
        msg = f"keep= must be at least 1 window, not {keep}"
        raise DataflowError(msg)
    try:
        from rechannel.profiling.spark.live import LiveSession
        from rechannel.profiling.watch import Watch
    except ImportError as error:
        raise _missing(error) from error
    return Watch(live=LiveSession.of(spark), window_ms=length, tell=tell, keep=keep)


def shares_of(events: Iterable[Event], *, after: int = -1, most: int = 20) -> CriticalShares | None:
    """Return what the critical path of the last timesteps is made of; None if none of them is whole.

    events: of a job, in order. after: the latest timestep that does not count. most: timesteps.

    Raises SetUpError if packages are missing.
    """
    try:
        from rechannel.profiling.job.recent import critical_shares
    except ImportError as error:
        raise _missing(error) from error
    return critical_shares(events, after=after, most=most)


def _missing(error: ImportError) -> SetUpError:
    return SetUpError(f"profiles need a package that is not installed ({error.name}): {INSTALL}")
