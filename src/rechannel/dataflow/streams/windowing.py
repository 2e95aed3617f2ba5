"""Windows as users name them: `rc.windows.tumbling("10 seconds")`, `rc.windows.sessions("5 minutes")`, ..."""

from __future__ import annotations

from rechannel.dataflow.graph.durations import Duration, microseconds
from rechannel.errors import DataflowError
from rechannel.operators.window.kinds import Count, Inherited, Session, Sliding, Timed, Tumbling
from rechannel.operators.window.terms import Every


def every(interval: Duration) -> Every:
    """Show incomplete windows as well, at an interval of processing time: `emit=rc.every("10 seconds")`."""
    length = microseconds(interval, "interval of rc.every")
    if length % 1_000:
        msg = f"the interval of rc.every must be whole milliseconds, not {interval!r}"
        raise DataflowError(msg)
    return Every(ms=length // 1_000)


def same_window() -> Inherited:
    """The windows that rows come out of: `counts.window(rc.windows.same_window()).top(1, by="bids")`."""
    return Inherited()


def tumbling(size: Duration, offset: Duration = 0) -> Tumbling:
    """Windows of one length, one after the other: [offset + n * size, offset + (n + 1) * size) since 1970, UTC."""
    return Tumbling(
        size_us=microseconds(size, "size of a window"),
        offset_us=microseconds(offset, "offset of a window", least=0),
    )


def sessions(gap: Duration) -> Session:
    """Rows of a key that are at most `gap` apart from the next: from the first row to the gap after the last one."""
    return Session(gap_us=microseconds(gap, "gap between sessions"))


def sliding(size: Duration, every: Duration, offset: Duration = 0) -> Timed:
    """Windows that overlap: [offset + n * every, offset + n * every + size) since 1970, UTC.

    A row is in all windows that hold it. Aggregates that do not depend on the order of rows, of windows that are shown
    when they are complete and take no late rows, keep it once, in a pane; a key has up to size / gcd(size, every)
    panes. All others keep it once for every window.
    """
    size_us = microseconds(size, "size of a window")
    every_us = microseconds(every, "distance between windows")
    offset_us = microseconds(offset, "offset of a window", least=0)
    if every_us > size_us:
        msg = f"windows of {size!r} every {every!r} would leave out the rows between two windows; use every <= size"
        raise DataflowError(msg)
    if every_us == size_us:
        return Tumbling(size_us=size_us, offset_us=offset_us)
    return Sliding(size_us=size_us, every_us=every_us, offset_us=offset_us)


def counting(size: int, every: int | None = None) -> Count:
    """Windows of rows: after every `every` rows of a key its last `size` ones; None = one window after the other.

    Rows of a key are counted from its first one on, in the order of the stream, or of event time with `time_column=`.
    A row is kept once, in a pane; a key has up to size / gcd(size, every) panes.
    """
    length = rows_of(size, "size of a window")
    step = length if every is None else rows_of(every, "distance between windows")
    if step > length:
        msg = f"windows of {size} rows every {every} would leave out the rows between two windows; use every <= size"
        raise DataflowError(msg)
    return Count(size=length, every=step)


def rows_of(number: int, what: str) -> int:
    """A number of rows. Raises DataflowError unless it is a positive whole number."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        msg = f"{what} must be a whole number of rows of at least 1, not {number!r}"
        raise DataflowError(msg)
    return number
