"""Windows as users name them: of one length, or of as long as rows come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rechannel.dataflow.counted import rows_of
from rechannel.dataflow.durations import Duration, microseconds
from rechannel.dataflow.graph import Node, Stateful
from rechannel.dataflow.groupwise import ApplySessionSpec, ApplySpec
from rechannel.dataflow.naming import caller
from rechannel.dataflow.tops import TopSpec
from rechannel.dataflow.window_specs import SessionSpec, WindowSpec
from rechannel.errors import DataflowError
from rechannel.kernels.windows import AssignWindows

MOST_WINDOWS = 1_000
"""That a row may be in where each has rows of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Windows of one length. In microseconds: their length, from one's begin to the next one's, begin of one.

    assigned: rows have their window. gap_us: of sessions, which have no length. counted: where windows are of rows and
    not of time: how many, and from one's begin to the next one's.
    """

    size_us: int
    every_us: int
    offset_us: int = 0
    assigned: bool = False
    gap_us: int | None = None
    counted: tuple[int, int] | None = None

    @property
    def follow(self) -> bool:
        """Whether each begins where the one before ends."""
        return self.timed and self.every_us == self.size_us

    @property
    def timed(self) -> bool:
        """Whether they are of one length of time, and begin at equal distances."""
        return self.gap_us is None and self.counted is None and not self.assigned

    @property
    def overlap(self) -> bool:
        """Whether a row is in several."""
        return self.timed and not self.follow

    @property
    def anchor_us(self) -> int | None:
        """Windows begin there and every `size_us`; None = elsewhere too."""
        return self.offset_us if self.follow else None

    def assign(self, column: str) -> AssignWindows:
        """Rows with their window; one that is in several comes once for each. column: of event times.

        Raises DataflowError where it would come too often.
        """
        every = self.every_us if self.overlap else None
        if self.size_us > MOST_WINDOWS * self.every_us:
            msg = (
                f"window ({caller()}): each row would be kept {self.size_us // self.every_us:,} times, once for every"
                f" window that holds it, and {MOST_WINDOWS:,} times are the most. Make windows shorter or farther"
                " apart; or show them when they are complete, of a key, without lateness, with aggregates that do not"
                " go by the order of rows: then a row is kept once"
            )
            raise DataflowError(msg)
        return AssignWindows(
            column=column, size_us=self.size_us, offset_us=self.offset_us, every_us=every
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """An interval of processing time, milliseconds."""

    ms: int


def every(interval: Duration) -> Every:
    """Show at an interval, of processing time, what is not complete: `.window(..., emit=rc.every("10 seconds"))`."""
    length = microseconds(interval, "interval of rc.every")
    if length % 1_000:
        msg = f"an interval of rc.every is whole milliseconds, not {interval!r}"
        raise DataflowError(msg)
    return Every(ms=length // 1_000)


SAME = Windows(size_us=0, every_us=0, assigned=True)


def same_window() -> Windows:
    """The windows that rows come out of: `counts.window(rc.same_window()).top(1, by="bids")`."""
    return SAME


def size_of(node: Node) -> int:
    """Length of the windows that a node's rows come out of. Raises DataflowError where there are none."""
    sizes = {size for each in _nearest(node) if (size := _size_of(each.spec)) is not None}
    if len(sizes) != 1:
        msg = f"window ({caller()}): rows of {node.name!r} do not come out of windows of one length"
        raise DataflowError(msg)
    return sizes.pop()


def corrects(node: Node) -> bool:
    """Whether windows that a node's rows come out of are shown more than once."""
    kinds = WindowSpec | SessionSpec | ApplySessionSpec
    specs = [each.spec for each in _nearest(node) if isinstance(each.spec, kinds)]
    return any(spec.lateness_us or not spec.on_close or spec.early_ms for spec in specs)


def _size_of(spec: Any) -> int | None:
    """Length of an operator's windows, None where it has none."""
    if isinstance(spec, WindowSpec):
        return spec.size_us
    if isinstance(spec, TopSpec | ApplySpec):
        return spec.window_us
    within = getattr(spec, "within", None)
    return within.size_us if isinstance(within, Windows) else None


def _nearest(node: Node) -> list[Stateful]:
    """Operators that a node's rows come out of."""
    if isinstance(node, Stateful):
        return [node]
    return [found for up in node.upstreams for found in _nearest(up)]


def tumbling(size: Duration, offset: Duration = 0) -> Windows:
    """Windows of one length, one behind the other: [offset + n * size, offset + (n + 1) * size) since 1970, UTC."""
    return sliding(size, size, offset)


def sessions(gap: Duration) -> Windows:
    """Rows of a key that are less than `gap` apart from the next: from the first one to the gap behind the last one."""
    length = microseconds(gap, "gap between sessions")
    return Windows(size_us=length, every_us=length, gap_us=length)


def sliding(size: Duration, every: Duration, offset: Duration = 0) -> Windows:
    """Windows that overlap: [offset + n * every, offset + n * every + size) since 1970, UTC.

    A row is in all windows that hold it. Aggregates that do not go by the order of rows, of windows that are shown when
    they are complete and take no lateness, keep it once, in a pane; there are up to size / gcd(size, every) panes of a
    key. All others keep it once for every window.
    """
    made = Windows(
        size_us=microseconds(size, "size of a window"),
        every_us=microseconds(every, "distance between windows"),
        offset_us=microseconds(offset, "offset of a window", least=0),
    )
    if made.every_us > made.size_us:
        msg = f"windows of {size!r} every {every!r} would leave rows out: make them as long as they are apart"
        raise DataflowError(msg)
    return made


def counting(size: int, every: int | None = None) -> Windows:
    """Windows of rows: after every `every` rows of a key its last `size` ones; None = one window behind the other.

    Rows of a key are counted from its first one on, in the order of the stream, or of event time with `on=`. A row is
    kept once, in a pane; there are up to size / gcd(size, every) panes of a key.
    """
    length = rows_of(size, "size of a window")
    step = length if every is None else rows_of(every, "distance between windows")
    if step > length:
        msg = f"windows of {size} rows every {every} would leave rows out: make them as long as they are apart"
        raise DataflowError(msg)
    return Windows(size_us=0, every_us=0, counted=(length, step))
