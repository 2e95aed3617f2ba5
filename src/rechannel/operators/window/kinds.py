"""The kinds of windows: `Windows` is one of five, each with what tells its own windows apart and nothing else.

A kind says which terms it can have (`terms`) and what becomes of rows in its windows: aggregates (`aggregated`) or the
result of a function of all of them (`applied`). Each of those answers with an operator and what has to be done with
rows before it. `whole` is for operators that need all rows of a window at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.operators.window.apply_spec import ApplySessionSpec, ApplySpec
from rechannel.operators.window.counted_spec import CountedSpec
from rechannel.operators.window.group_frame import ApplyBatches
from rechannel.operators.window.logic import START, AssignWindows
from rechannel.operators.window.session_spec import SessionSpec
from rechannel.operators.window.spec import Aggregates, WindowSpec
from rechannel.operators.window.terms import (
    Asked,
    Placed,
    Terms,
    Whole,
    length_text,
    not_shown_once,
)

MOST_WINDOWS = 1_000
"""Windows that a row may be in if each has rows of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfOneLength:
    """What is the same for windows of one length of time that begin at equal distances."""

    size_us: int
    offset_us: int = 0
    """Start of one of them, microseconds since 1970; those of all others follow."""

    @property
    def step_us(self) -> int:
        """Microseconds between the starts of two consecutive windows."""
        return self.size_us

    @property
    def overlap_us(self) -> int | None:
        """`step_us` of windows that overlap, None for others."""
        return None if self.step_us == self.size_us else self.step_us

    @property
    def anchor_us(self) -> int | None:
        """Start of one window, microseconds since 1970, for windows that do not overlap; None if they overlap."""
        return self.offset_us if self.overlap_us is None else None

    @property
    def stored_as(self) -> str:
        """Return the name of these windows in fingerprints."""
        return f"Windows({', '.join(f'{name}={value!r}' for name, value in self._kept().items())})"

    def digested(self) -> tuple[str, Mapping[str, Any]]:
        """Return the name and the fields that enter digests, see `digests.Digested`."""
        return "rechannel.dataflow.windowing:Windows", self._kept()

    def _kept(self) -> dict[str, Any]:
        """Return the fields as journals have them, from when one class had those of all kinds."""
        sizes = {"size_us": self.size_us, "every_us": self.step_us, "offset_us": self.offset_us}
        return {**sizes, "assigned": False, "gap_us": None, "counted": None}

    def assign(self, what: str, column: str) -> AssignWindows:
        """Give rows their windows; a row that is in several comes once for each. column: of event times.

        Raises DataflowError where a row would come too often.
        """
        if self.size_us > MOST_WINDOWS * self.step_us:
            msg = (
                f"{what}: each row is in {self.size_us // self.step_us:,} windows and would be stored once for each;"
                f" at most {MOST_WINDOWS:,} are allowed. Use a smaller size or a larger distance between windows. Rows"
                " are stored once if windows have a key, no lateness, emit='on_close', and aggregates that do not"
                " depend on the order of rows"
            )
            raise DataflowError(msg)
        return AssignWindows(
            column=column,
            size_us=self.size_us,
            offset_us=self.offset_us,
            every_us=self.overlap_us,
        )

    def terms(self, asked: Asked) -> Terms:
        """Any terms; in processing time, windows that overlap are shown when they are complete.

        Raises DataflowError.
        """
        asked.need_free_keys()
        if not asked.by_processing_time():
            return asked.in_event_time()
        if self.overlap_us is not None:
            asked.need_no_early()
        return asked.in_processing_time(on_change=self.overlap_us is None)

    def aggregated(self, what: str, aggregates: Aggregates, terms: Terms) -> Placed:
        """Aggregates of the rows in each window: of panes, or of rows that come once for each window."""
        terms.need_final_rows(what)
        spec = window_spec(
            aggregates,
            terms,
            size_us=self.size_us,
            every_us=self.step_us,
            offset_us=self.offset_us,
        )
        if terms.column is None:
            return Placed(spec=spec)
        inside: Timed = Tumbling(size_us=spec.pane_us, offset_us=self.offset_us)
        assign = (self if spec.copies else inside).assign(what, terms.column)
        return Placed(spec=spec, by_start=True, assign=assign)

    def whole(self, what: str, terms: Terms) -> Whole:
        """Windows that are shown once; each holds rows of its own. Raises DataflowError."""
        column = shown_once(what, terms)
        return Whole(
            size_us=self.size_us,
            anchor_us=self.anchor_us,
            overlap_us=self.overlap_us,
            column=column,
            assign=self.assign(what, column),
        )

    def applied(self, what: str, function: ApplyBatches, schema: pa.Schema, terms: Terms) -> Placed:
        """What a function makes of the rows in each window."""
        return applied(self.whole(what, terms), function, schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tumbling(OfOneLength):
    """Windows of one length of time, each of which begins where the one before it ends."""

    def __repr__(self) -> str:
        return f"tumbling({_called(size=self.size_us, offset=self.offset_us)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sliding(OfOneLength):
    """Windows of one length of time that overlap: each begins before the one before it ends."""

    every_us: int
    """From the begin of one to that of the next; shorter than `size_us`."""

    def __repr__(self) -> str:
        return f"sliding({_called(size=self.size_us, every=self.every_us, offset=self.offset_us)})"

    @property
    def step_us(self) -> int:
        """Microseconds between the starts of two consecutive windows."""
        return self.every_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Rows of a key that are at most `gap_us` apart from the next one."""

    gap_us: int

    def __repr__(self) -> str:
        return f"sessions({_called(gap=self.gap_us)})"

    def terms(self, asked: Asked) -> Terms:
        """Any terms, of a key. Raises DataflowError."""
        if asked.by_processing_time():
            return asked.in_processing_time(on_change=True)
        if not asked.keys:
            msg = f"{asked.what}: sessions need a key; use key_by"
            raise DataflowError(msg)
        return asked.in_event_time()

    def aggregated(self, what: str, aggregates: Aggregates, terms: Terms) -> Placed:
        """Aggregates of the rows in each session."""
        terms.need_final_rows(what)
        spec = SessionSpec(
            aggregates=aggregates,
            gap_us=self.gap_us,
            on=terms.column,
            lateness_us=terms.lateness_us,
            on_close=terms.on_close,
            early_ms=terms.early_ms,
        )
        return Placed(spec=spec)

    def applied(self, what: str, function: ApplyBatches, schema: pa.Schema, terms: Terms) -> Placed:
        """What a function makes of the rows in each session, every time that it is shown."""
        terms.need_final_rows(what)
        spec = ApplySessionSpec(
            function=function,
            schema=schema,
            gap_us=self.gap_us,
            on=terms.column,
            lateness_us=terms.lateness_us,
            on_close=terms.on_close,
            early_ms=terms.early_ms,
        )
        return Placed(spec=spec)

    def whole(self, what: str, terms: Terms) -> Whole:
        """Raise DataflowError."""
        raise not_shown_once(what)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Windows of a number of rows of a key."""

    size: int
    every: int
    """Rows from the begin of one to that of the next."""

    def __repr__(self) -> str:
        return f"counting(size={self.size}, every={self.every})"

    def terms(self, asked: Asked) -> Terms:
        """Shown when they are complete, in the order of the stream or of event time. Raises DataflowError."""
        asked.need_no_early()
        return asked.in_rows()

    def aggregated(self, what: str, aggregates: Aggregates, terms: Terms) -> Placed:
        """Aggregates of the rows in each window."""
        spec = CountedSpec(
            aggregates=aggregates.by_name(what), size=self.size, every=self.every, on=terms.column
        )
        return Placed(spec=spec, order_by=terms.column)

    def applied(self, what: str, function: ApplyBatches, schema: pa.Schema, terms: Terms) -> Placed:
        """Raise DataflowError."""
        raise not_shown_once(what)

    def whole(self, what: str, terms: Terms) -> Whole:
        """Raise DataflowError."""
        raise not_shown_once(what)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """The windows that rows come out of: each row has the start of its own."""

    def __repr__(self) -> str:
        return "same_window()"

    def terms(self, asked: Asked) -> Terms:
        """Event time, by the window that rows have. Raises DataflowError."""
        asked.need_no_early()
        if asked.by_processing_time():
            raise asked.not_in_processing_time()
        if asked.time_column is not None:
            msg = f"{asked.what}: rc.windows.same_window() uses the window that rows have; leave out time_column="
            raise DataflowError(msg)
        asked.before.size_us(asked.what)
        return asked.in_event_time(START)

    def aggregated(self, what: str, aggregates: Aggregates, terms: Terms) -> Placed:
        """Aggregates of the rows that come out of each window."""
        terms.need_final_rows(what, of_windows=True)
        spec = window_spec(aggregates, terms, size_us=terms.before.size_us(what), assigned=True)
        return Placed(spec=spec, by_start=True)

    def whole(self, what: str, terms: Terms) -> Whole:
        """Windows that are shown once, of rows that have the start of theirs. Raises DataflowError."""
        column = shown_once(what, terms, of_windows=True)
        size_us = terms.before.size_us(what)
        return Whole(size_us=size_us, anchor_us=None, overlap_us=None, column=column, assign=None)

    def applied(self, what: str, function: ApplyBatches, schema: pa.Schema, terms: Terms) -> Placed:
        """What a function makes of the rows that come out of each window."""
        return applied(self.whole(what, terms), function, schema)


Timed = Tumbling | Sliding
"""Windows of one length of time, which begin at equal distances."""

Windows = Tumbling | Sliding | Session | Count | Inherited


def shown_once(what: str, terms: Terms, *, of_windows: bool = False) -> str:
    """Check that all rows of a window are there when it is shown; its column of event times. Raises DataflowError."""
    terms.need_shown_once(what)
    terms.need_final_rows(what, of_windows=of_windows)
    return terms.column or START


def applied(whole: Whole, function: ApplyBatches, schema: pa.Schema) -> Placed:
    """What a function makes of all rows of each window."""
    spec = ApplySpec(
        function=function,
        schema=schema,
        window_us=whole.size_us,
        offset_us=whole.anchor_us,
        every_us=whole.overlap_us,
        column=whole.column,
    )
    return whole.with_rows(spec)


def window_spec(
    aggregates: Aggregates,
    terms: Terms,
    *,
    size_us: int,
    every_us: int | None = None,
    offset_us: int = 0,
    assigned: bool = False,
) -> WindowSpec:
    """Aggregates of windows of one length. every_us: None = one after the other."""
    spec = WindowSpec(
        aggregates=aggregates,
        size_us=size_us,
        every_us=size_us if every_us is None else every_us,
        offset_us=offset_us,
        lateness_us=terms.lateness_us,
        on_close=terms.on_close,
        assigned=assigned,
        column=terms.column,
        processing=terms.column is None,
        early_ms=terms.early_ms,
    )
    return replace(spec, copies=spec.needs_copies(aggregates, keyed=terms.keyed))


def _called(**lengths: int) -> str:
    """Arguments as a user would write them; an offset of 0 is left out. In microseconds."""
    return ", ".join(
        f"{name}={length_text(us)!r}" for name, us in lengths.items() if us or name != "offset"
    )
