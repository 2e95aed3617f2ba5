"""What a user says of windows beside their kind, and what that means once it is checked."""

from __future__ import annotations

from dataclasses import dataclass

from rechannel.dataflow.durations import Duration, microseconds
from rechannel.dataflow.former import emission_hint
from rechannel.dataflow.graph import Node, Stateful
from rechannel.dataflow.timing import declared_column
from rechannel.errors import DataflowError
from rechannel.operators.spec import OperatorSpec
from rechannel.operators.window.logic import END, START, AssignWindows

ON_CLOSE, ON_UPDATE = "on_close", "on_update"
"""When windows are emitted: once event time passes their end, or in every timestep with rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """An interval of processing time."""

    ms: int
    """Milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How the rows of one stream get windows, and when these are shown. Checked."""

    node: Node
    """Brings the rows."""
    keyed: bool
    """Whether rows have a key."""
    column: str | None
    """Event times. None: windows of processing time, or windows of rows in the order of the stream."""
    lateness_us: int = 0
    """For how long, in event time, a complete window takes rows."""
    on_close: bool = True
    """Show a window when it is complete, and not in every timestep that brings it rows."""
    early_ms: int | None = None
    """Interval of processing time at which incomplete windows are shown as well; None = never."""

    @property
    def shown_once(self) -> bool:
        """Whether a window of event time is shown when it is complete, and never again."""
        corrected = self.lateness_us or not self.on_close or self.early_ms
        return self.column is not None and not corrected

    def need_shown_once(self, what: str) -> None:
        """Raise DataflowError unless all rows of a window are there when it is shown."""
        if not self.shown_once:
            raise not_shown_once(what)

    def need_final_rows(self, what: str, *, of_windows: bool = False) -> None:
        """Raise DataflowError if the rows are windows themselves and the same one can come again.

        of_windows: the rows are known to be windows, whatever the column of event times.
        """
        if (of_windows or self.column in (START, END)) and corrects(self.node):
            msg = (
                f"{what}: the windows before it are shown again when rows come to them, and it would count them twice;"
                " leave lateness= and emit= away there"
            )
            raise DataflowError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a user says of windows beside their kind. Nothing is checked yet."""

    what: str
    """Names the call in messages."""
    node: Node
    """Brings the rows."""
    keys: tuple[str, ...]
    time_column: str | None
    lateness: Duration
    emit: str | Every
    time: str

    @property
    def early_ms(self) -> int | None:
        """Interval at which incomplete windows are shown."""
        return self.emit.ms if isinstance(self.emit, Every) else None

    @property
    def shown(self) -> str:
        """When windows are shown, beside the interval."""
        return ON_CLOSE if isinstance(self.emit, Every) else self.emit

    def need_no_early(self) -> None:
        """Raise DataflowError for windows that cannot be shown early."""
        if self.early_ms is not None:
            msg = (
                f"{self.what}: emit=rc.every(...) is for tumbling windows and sessions, and in event time for"
                " sliding windows"
            )
            raise DataflowError(msg)

    def need_free_keys(self) -> None:
        """Raise DataflowError for a key that is called as a column of windows is."""
        for key in (START, END):
            if key in self.keys:
                msg = f"{self.what}: key {key!r} has the name of a window's column; rename it"
                raise DataflowError(msg)

    def by_processing_time(self) -> bool:
        """Whether windows go by the time of timesteps. Raises DataflowError for a time that is neither."""
        if self.time not in ("event", "processing"):
            msg = f"{self.what}: time is 'event' or 'processing', not {self.time!r}"
            raise DataflowError(msg)
        return self.time == "processing"

    def in_processing_time(self, *, on_change: bool) -> Terms:
        """Terms of windows of processing time. on_change: they may be shown in every timestep."""
        if self.time_column is not None or self.lateness:
            raise self.not_in_processing_time()
        if not self.keys:
            msg = f"{self.what}: windows of processing time need a key; use key_by"
            raise DataflowError(msg)
        if self.shown != ON_CLOSE and not (on_change and self.shown == ON_UPDATE):
            msg = (
                f"{self.what}: emit is 'on_close' or, for windows that do not overlap, 'on_update',"
                f" not {self.shown!r}{emission_hint(self.shown)}"
            )
            raise DataflowError(msg)
        return Terms(
            node=self.node,
            keyed=True,
            column=None,
            on_close=self.shown == ON_CLOSE,
            early_ms=self.early_ms,
        )

    def not_in_processing_time(self) -> DataflowError:
        """The error for windows that processing time cannot have."""
        return DataflowError(
            f"{self.what}: windows of processing time are rc.windows.tumbling, sliding or sessions, of no column, and"
            " nothing is late for them; leave time_column= and lateness= out"
        )

    def in_event_time(self, column: str | None = None) -> Terms:
        """Terms of windows of event time. column: of the event times; None = what the user or the stream says."""
        column = column or self.time_column or declared_column(self.node)
        if column is None:
            msg = (
                f"{self.what}: say which column has the event times, with time_column=, or before with"
                " stream.event_time('column')"
            )
            raise DataflowError(msg)
        if self.shown not in (ON_CLOSE, ON_UPDATE):
            msg = (
                f"{self.what}: emit is 'on_close', 'on_update' or rc.every(...), not {self.emit!r}"
                f"{emission_hint(self.emit)}"
            )
            raise DataflowError(msg)
        return Terms(
            node=self.node,
            keyed=bool(self.keys),
            column=column,
            lateness_us=microseconds(self.lateness, f"{self.what}: lateness", least=0),
            on_close=self.shown == ON_CLOSE,
            early_ms=self.early_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An operator of windows, and what has to be done with rows before it gets them."""

    spec: OperatorSpec
    by_start: bool = False
    """The start of a row's window is a key of the operator."""
    assign: AssignWindows | None = None
    """Gives every row its window; None = it has one, or the operator finds it."""
    order_by: str | None = None
    """Column of event times by which rows are sorted first; None = they stay in the order of the stream."""


def not_shown_once(what: str) -> DataflowError:
    """The error for windows whose rows are not all there when they are shown."""
    return DataflowError(
        f"{what}: windows are of one length and of event time, are shown when complete, and take no lateness;"
        " use rc.windows.tumbling, rc.windows.sliding or rc.windows.same_window"
    )


def size_of(what: str, node: Node) -> int:
    """Length of the windows that a node's rows come out of. Raises DataflowError where there are none."""
    sizes = {size for each in _nearest(node) if (size := each.spec.windows_us) is not None}
    if len(sizes) != 1:
        msg = f"{what}: rows of {node.name!r} do not come out of windows of one length"
        raise DataflowError(msg)
    return sizes.pop()


def corrects(node: Node) -> bool:
    """Whether windows that a node's rows come out of are shown more than once."""
    return any(each.spec.corrects for each in _nearest(node))


def _nearest(node: Node) -> list[Stateful]:
    """Operators that a node's rows come out of."""
    if isinstance(node, Stateful):
        return [node]
    return [found for up in node.upstreams for found in _nearest(up)]
