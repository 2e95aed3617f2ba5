"""Options of a windowed operator besides the kind of window (time column, lateness, emission), in checked form."""

from __future__ import annotations

from dataclasses import dataclass

from rechannel.errors import DataflowError
from rechannel.operators.spec import OperatorSpec
from rechannel.operators.window.logic import END, START, AssignWindows

ON_CLOSE, ON_UPDATE = "on_close", "on_update"
"""When windows are emitted: once event time passes their end, or in every timestep with rows."""


_UNITS = {
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """An interval of processing time."""

    ms: int
    """Milliseconds."""

    def __repr__(self) -> str:
        return f"every({length_text(self.ms * 1_000)!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What is known of rows before they get windows."""

    name: str
    """Name of the node that brings them."""
    time_column: str | None = None
    """Column of event times that was declared for them."""
    sizes_us: frozenset[int] = frozenset()
    """Lengths of the windows that they come out of."""
    corrects: bool = False
    """Whether a window that they come out of may be shown more than once."""

    def size_us(self, what: str) -> int:
        """Length of the windows that the rows come out of. Raises DataflowError unless they have one."""
        if len(self.sizes_us) != 1:
            msg = f"{what}: rows of {self.name!r} do not come out of windows of one length"
            raise DataflowError(msg)
        return next(iter(self.sizes_us))


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How the rows of one stream get windows, and when these are shown. Checked."""

    before: Before
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
        if (of_windows or self.column in (START, END)) and self.before.corrects:
            msg = (
                f"{what}: the windows before it are shown again when rows come to them, and it would count them twice;"
                " leave out lateness= and emit= there"
            )
            raise DataflowError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a user says of windows beside their kind. Nothing is checked yet."""

    what: str
    """Names the call in messages."""
    before: Before
    keys: tuple[str, ...]
    time_column: str | None
    lateness_us: int
    emit: str | Every
    time: str
    hint: str = ""
    """Ends a message that refuses `emit`: what to write instead."""

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
            msg = f"{self.what}: time must be 'event' or 'processing', not {self.time!r}"
            raise DataflowError(msg)
        return self.time == "processing"

    def in_processing_time(self, *, on_change: bool) -> Terms:
        """Terms of windows of processing time. on_change: they may be shown in every timestep."""
        if self.time_column is not None or self.lateness_us:
            raise self.not_in_processing_time()
        if not self.keys:
            msg = f"{self.what}: windows of processing time need a key; use key_by"
            raise DataflowError(msg)
        if self.shown != ON_CLOSE and not (on_change and self.shown == ON_UPDATE):
            msg = (
                f"{self.what}: emit must be 'on_close' or, for windows that do not overlap, 'on_update',"
                f" not {self.shown!r}{self.hint}"
            )
            raise DataflowError(msg)
        return Terms(
            before=self.before,
            keyed=True,
            column=None,
            on_close=self.shown == ON_CLOSE,
            early_ms=self.early_ms,
        )

    def not_in_processing_time(self) -> DataflowError:
        """The error for windows that processing time cannot have."""
        return DataflowError(
            f"{self.what}: windows of processing time are rc.windows.tumbling, sliding or sessions. They read no"
            " column, and no row is late for them; leave out time_column= and lateness="
        )

    def in_rows(self) -> Terms:
        """Terms of windows of rows. Raises DataflowError for what these do not have."""
        what = f"{self.what}: windows of rows"
        if not self.keys:
            msg = f"{what} need a key; use key_by"
            raise DataflowError(msg)
        if self.time != "event":
            msg = f"{what} follow the order of the stream, or of the event times in time_column=; leave out time="
            raise DataflowError(msg)
        if self.lateness_us:
            msg = f"{what} do not end at a time, so no row is late for them; leave out lateness="
            raise DataflowError(msg)
        if self.shown != ON_CLOSE:
            msg = f"{what} are emitted when they are complete; leave out emit={self.shown!r}{self.hint}"
            raise DataflowError(msg)
        return Terms(before=self.before, keyed=True, column=self.time_column)

    def in_event_time(self, column: str | None = None) -> Terms:
        """Terms of windows of event time. column: of the event times; None = what the user or the stream says."""
        column = column or self.time_column or self.before.time_column
        if column is None:
            msg = (
                f"{self.what} needs a column of event times: name it with time_column=, or before with"
                " stream.event_time('column')"
            )
            raise DataflowError(msg)
        if self.shown not in (ON_CLOSE, ON_UPDATE):
            msg = (
                f"{self.what}: emit must be 'on_close', 'on_update' or rc.every(...), not {self.emit!r}"
                f"{self.hint}"
            )
            raise DataflowError(msg)
        return Terms(
            before=self.before,
            keyed=bool(self.keys),
            column=column,
            lateness_us=self.lateness_us,
            on_close=self.shown == ON_CLOSE,
            early_ms=self.early_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """Windows of one length that are shown once, with all of their rows."""

    size_us: int
    anchor_us: int | None
    """Windows begin then and every `size_us`, and at no other time; None = there are others."""
    overlap_us: int | None
    """Of windows that overlap, from the begin of one to that of the next; None = they do not."""
    column: str
    """Event times."""
    assign: AssignWindows | None
    """Gives every row its windows; None = it has one."""

    def with_rows(self, spec: OperatorSpec) -> Placed:
        """An operator over these windows."""
        return Placed(spec=spec, by_start=True, assign=self.assign)


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


def length_text(us: int) -> str:
    """Return a length of time, in microseconds, as users write it: `90 minutes`."""
    unit, length = next(pair for pair in _UNITS.items() if us % pair[1] == 0)
    number = us // length
    return f"{number} {unit}{'' if number == 1 else 's'}"
