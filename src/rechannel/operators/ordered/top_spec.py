"""`top` and `latest` as values."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.kernels.columnar.ranking import orderable
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.model.ddl import type_name
from rechannel.operators.checks import need_columns
from rechannel.operators.ordered.top import RANK, ROW_NUMBER, TopLogic
from rechannel.operators.spec import INSERTS, OperatorSpec
from rechannel.operators.window.logic import END, START


@dataclass(frozen=True, eq=False, kw_only=True)
class TopSpec(OperatorSpec):
    """The first rows of every key in an order. See `top`."""

    by: tuple[tuple[str, bool], ...]
    """(column, largest first) of the order."""
    n: int | None
    """How many rows; None = all."""
    latest: bool = False
    """Of equal rows, the one that came last is first."""
    ties: bool = False
    """Rows that equal the last one are in as well."""
    ranking: str = ROW_NUMBER
    """How equal rows are numbered: row_number, rank or dense_rank."""
    rank: str | None = "rank"
    """Name of the column of ranks; None = there is none."""
    window_us: int | None = None
    """Length of the windows; None = ranks of all rows so far."""
    offset_us: int | None = None
    """Windows begin at this time after 1970 and every `window_us`; None = at other times too."""
    every_us: int | None = None
    """From the begin of one window to that of the next, if a row comes once for each of its windows."""
    column: str | None = None
    """Event times, if there are windows."""

    @property
    def needs_time(self) -> bool:
        """Windows are shown when event time says so."""
        return self.window_us is not None

    @property
    def windows_us(self) -> int | None:
        """Length of its windows, if it has any."""
        return self.window_us

    @property
    def one_row_per_key(self) -> bool:
        """Whether it keeps the first row of each key, and no other."""
        return self.n == 1 and not self.ties and self.rank is None and self.window_us is None

    @property
    def unchanging(self) -> str | None:
        """Return why no row is replaced; None = ranks get other rows."""
        if self.window_us is not None:
            return f"it emits the rows of a window once, when the window closes. {INSERTS}"
        if self.rank is None and self.n != 1:
            return (
                "without ranks nothing tells the rows of a key apart. Name their column with rank="
            )
        return None

    @property
    def kind(self) -> str:
        """Return the kind in one word."""
        return "top"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types. Raises DataflowError."""
        need_columns("top", [name for name, _ in self.by], schema)
        for name, _ in self.by:
            kind = schema.field(name).type
            if name in keys or not orderable(kind):
                why = "a key" if name in keys else type_name(kind)
                msg = f"top: rows of a key cannot be ordered by {name!r}, which is {why}"
                raise DataflowError(msg)
        windowed = self.window_us is not None
        hidden = (START, END) if self.every_us is None else (END,)
        rows = [f for f in schema if f.name not in keys and not (windowed and f.name == END)]
        if RANK.name in schema.names:
            msg = f"input column {RANK.name!r} is reserved for state; rename it before top"
            raise DataflowError(msg)
        if self.rank is not None and self.rank in schema.names:
            msg = f"top: the input has a column {self.rank!r} already; give the rank another name with rank="
            raise DataflowError(msg)
        return TopLogic(
            keys=pa.schema([schema.field(key) for key in keys]),
            rows=pa.schema(rows),
            row_schema=pa.schema([f for f in schema if not windowed or f.name not in hidden]),
            by=self.by,
            n=self.n,
            latest=self.latest,
            ties=self.ties,
            ranking=self.ranking,
            rank=self.rank,
            window_us=self.window_us,
            offset_us=self.offset_us,
        )

    def fingerprint(self) -> str:
        """What the stored rows are."""
        return f"top({self.fixed})"

    @property
    def fixed(self) -> str:
        """Which rows are kept: others are gone."""
        every = "" if self.every_us is None else f" every {self.every_us}"
        windows = f"{self.window_us} from {self.offset_us}{every} of {self.column}"
        ranking = "" if self.ranking == ROW_NUMBER else f", {self.ranking}"
        return f"{self.n} by {self.by}, {self.latest}, {self.ties}, {windows}{ranking}"
