"""`rc.profile`: what a notebook calls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rechannel.dataflow.durations import Duration, microseconds
from rechannel.errors import SetUpError

if TYPE_CHECKING:
    from rechannel.profiling.reading import Analysis

INSTALL = "pip install 'rechannel[profile]'"


def profile(
    log: str | Path, *, window: Duration = "1 second", threshold: Duration = 0, strict: bool = False
) -> Analysis:
    """Why an application is slow: critical participation of a Spark event log, of the telemetry of a job (its state
    directory, or the directory `telemetry` in it), or of a trace (docs/formats/trace.md).

    window: of which length the parts are that are looked at one by one. threshold: gaps that are shorter belong to what
    is beside them. strict: refuse a log with bad lines, which are otherwise skipped and noted.
    The answer has `findings`, in words; `profile.by_activity()`, `by_worker()`, `by_operator()`, `by_channel()` and
    `over_time(...)`, polars frames with the share of the critical path and of all time; and `notes`.
    Raises TraceError for what is no log, SetUpError where packages are missing.
    """
    size = microseconds(window, "window of a profile") / 1e6
    shortest = microseconds(threshold, "threshold of a profile", least=0) / 1e6
    try:
        from rechannel.profiling.reading import analyse
    except ImportError as error:
        msg = f"profiles need packages that are not there ({error.name}): {INSTALL}"
        raise SetUpError(msg) from error
    return analyse(log, window=size, threshold=shortest, strict=strict)
