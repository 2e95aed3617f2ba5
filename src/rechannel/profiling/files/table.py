"""A trace as a table: Parquet, CSV or JSON lines.

| column | |
|---|---|
| `worker` | who did it, or sent it: text or a number |
| `activity` | what it was: text; of a message "control message" or "data message", or a word of your own |
| `start`, `end` | when it began and ended, or was sent and received: whole nanoseconds, or timestamps |
| `operator` | the part of the program that it belongs to; may be missing or null |
| `to` | of a message, its receiver; null, or no such column, for activities |

Rows may come in any order. If they come roughly in order of time, a trace of any size needs the
memory of a few windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rechannel.errors import TraceError
from rechannel.profiling.model.trace import NS, RESERVED, Indices, Names, Trace
from rechannel.profiling.storage.blocks import Rows
from rechannel.profiling.storage.stored import (
    ACTIVITY,
    MESSAGE,
    StoredTrace,
    activity_blocks,
    message_blocks,
)

NEEDED = ("worker", "activity", "start", "end")
"""Columns that a table must have."""
_TEXT = dict.fromkeys(("worker", "activity", "operator", "to"), pl.String)
BATCH = 1 << 18
"""Rows that are read at once."""
LONGEST = 1 << 61
"""Longest trace, ns: 73 years. Differences of times have 64 bits."""

READERS: Mapping[str, Callable[[Path], pl.LazyFrame]] = {
    ".parquet": pl.scan_parquet,
    ".csv": partial(pl.scan_csv, schema_overrides=_TEXT),
    ".jsonl": partial(pl.scan_ndjson, infer_schema_length=None),
    ".ndjson": partial(pl.scan_ndjson, infer_schema_length=None),
}
"""By file extension."""


def open_trace(path: str | Path) -> StoredTrace:
    """Open a table of any size. Raises TraceError, which names the row and what is wrong with it."""
    place = Path(path)
    if place.suffix not in READERS:
        msg = f"{place} is not a trace: its name must end with {', '.join(READERS)}"
        raise TraceError(msg)
    try:
        rows = READERS[place.suffix](place)
        return _stored(rows.collect_schema(), rows.collect_batches(chunk_size=BATCH))
    except (pl.exceptions.PolarsError, OSError) as error:
        # Polars continues with what it was doing, on lines of their own.
        reason, *_ = str(error).split("\n")
        msg = f"{place} cannot be read as {place.suffix[1:]}: {reason}"
        raise TraceError(msg) from error


def _stored(schema: pl.Schema, batches: Iterable[pl.DataFrame]) -> StoredTrace:
    missing = [name for name in NEEDED if name not in schema]
    if missing:
        msg = f"the trace has no column {missing[0]!r}; it has {', '.join(schema)}"
        raise TraceError(msg)
    times = [_nanoseconds(schema[name], name) for name in ("start", "end")]
    workers, operators, kinds = _Known(), _Known(), _Known(RESERVED)
    did, went, before = activity_blocks(), message_blocks(), 0
    for batch in batches:
        rows = batch.with_columns(
            pl.lit(None, pl.String).alias(n) for n in ("operator", "to") if n not in schema
        ).with_columns(times)
        _check(rows, batch, before)
        before += len(rows)
        columns = {name: rows[name].to_numpy() for name in ("start", "end")}
        for name, known in (
            ("worker", workers),
            ("to", workers),
            ("activity", kinds),
            ("operator", operators),
        ):
            columns[name] = known.codes(rows[name].cast(pl.String))
        sent = columns["to"] >= 0
        did.add(_rows(ACTIVITY, columns, ~sent))
        went.add(_rows(MESSAGE, columns, sent))
    names = Names(workers=workers.names, operators=operators.names, kinds=kinds.names)
    made = StoredTrace(names=names, did=did, went=went)
    check_length(*made.span)
    return made


def check_length(begin: int, end: int) -> None:
    """Raise TraceError if a trace is too long. begin, end: ns."""
    if end - begin > LONGEST:
        days = (end - begin) / NS / 86_400
        msg = f"the trace lasts {days:,.0f} days: times must be nanoseconds since one common time"
        raise TraceError(msg)


def _check(rows: pl.DataFrame, told: pl.DataFrame, before: int) -> None:
    """Raise TraceError if a value is missing, or if a row ends before it begins.

    told: the rows as they were read. before: number of rows in earlier batches.
    """
    for name in NEEDED:
        if rows[name].null_count():
            at = rows[name].is_null().arg_max() or 0
            given = told[name][at]
            problem = (
                f"has no {name}"
                if given is None
                else f"has the {name} {str(given)[:40]!r}, which is no time: write whole nanoseconds, or"
                " timestamps such as 2026-01-31T12:00:00.5Z"
            )
            msg = f"row {before + at} of the trace {problem}"
            raise TraceError(msg)
    back = (rows["end"] < rows["start"]).arg_true()
    if len(back):
        at = int(back[0])
        lost = rows["start"][at] - rows["end"][at]
        msg = f"row {before + at} of the trace ends {lost:,} ns before it begins: leave it out, or correct its times"
        raise TraceError(msg)


def _rows(kind: np.dtype[Any], columns: Mapping[str, np.ndarray], chosen: np.ndarray) -> Rows:
    rows = np.empty(int(chosen.sum()), dtype=kind)
    for name in kind.names or ():
        rows[name] = columns[_COLUMN.get(name, name)][chosen]
    return rows


_COLUMN = {
    "kind": "activity",
    "source": "worker",
    "target": "to",
    "sent": "start",
    "received": "end",
}
"""The column of a field, if it has another name."""


class _Known:
    """Names, in the order in which they were first seen."""

    def __init__(self, begin: Sequence[str] = ()) -> None:
        self._numbers = {name: number for number, name in enumerate(begin)}

    @property
    def names(self) -> list[str]:
        return list(self._numbers)

    def codes(self, texts: pl.Series) -> Indices:
        """Return the numbers of names; -1 for null."""
        for name in texts.drop_nulls().unique(maintain_order=True).to_list():
            self._numbers.setdefault(name, len(self._numbers))
        if not self._numbers:
            return np.full(len(texts), -1, dtype=np.int32)
        found = texts.replace_strict(
            self.names, list(self._numbers.values()), return_dtype=pl.Int32, default=None
        )
        return found.fill_null(-1).to_numpy()


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write a trace as a Parquet table."""
    names, did, went = trace.names, trace.activities, trace.messages
    columns = {
        "worker": ([did.worker, went.source], names.workers),
        "activity": ([did.kind, went.kind], names.kinds),
        "operator": ([did.operator, went.operator], names.operators),
        "to": ([np.full(len(did), -1, dtype=np.int32), went.target], names.workers),
    }
    made = {name: _texts(np.concatenate(parts), known) for name, (parts, known) in columns.items()}
    times = {
        "start": np.concatenate([did.start, went.sent]),
        "end": np.concatenate([did.end, went.received]),
    }
    pl.DataFrame({**made, **times}).write_parquet(path)


def _nanoseconds(kind: pl.DataType, name: str) -> pl.Expr:
    column = pl.col(name)
    if kind.is_integer():
        return column.cast(pl.Int64)
    if isinstance(kind, pl.Datetime):
        return _since_1970(column, column)
    if kind == pl.String:
        return _read(column)
    msg = f"column {name!r} of a trace must be whole nanoseconds or a timestamp, not {kind}"
    raise TraceError(msg)


def _read(column: pl.Expr) -> pl.Expr:
    """Return the nanoseconds that texts say: whole numbers, or ISO 8601 timestamps, UTC if they
    name no zone.
    """
    text = column.str.strip_chars()
    iso = text.str.replace(" ", "T").str.replace("Z$", "+0000")
    iso = iso.str.replace(r"(T[^.+-]*(\.\d*)?)$", "${1}+0000")
    coarse, fine = (
        iso.str.to_datetime(_ISO, time_unit=unit, time_zone="UTC", strict=False)
        for unit in ("us", "ns")
    )
    return pl.coalesce(text.cast(pl.Int64, strict=False), _since_1970(coarse, fine))


_ISO = "%Y-%m-%dT%H:%M:%S%.f%z"


def _since_1970(coarse: pl.Expr, fine: pl.Expr) -> pl.Expr:
    """Return timestamps as nanoseconds; null if they do not fit into 64 bits. coarse: the same in a
    unit into which they fit.
    """
    return pl.when(coarse.dt.year().is_between(1678, 2261)).then(fine.dt.timestamp("ns"))


def _texts(places: np.ndarray, known: object) -> pl.Series:
    names = pl.Series(list(known), dtype=pl.String)  # type: ignore[call-overload]
    at = pl.Series(places).cast(pl.Int32)
    return names.gather(pl.select(pl.when(at >= 0).then(at)).to_series())
