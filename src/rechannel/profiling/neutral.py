"""The neutral form of a trace: one table, as Parquet, CSV or JSON lines.

| column | |
|---|---|
| `worker` | who did it, or sent it: text or a number |
| `activity` | what it was: text; of a message "control message" or "data message", or a word of your own |
| `start`, `end` | when it began and ended, or was sent and received: whole nanoseconds, or timestamps |
| `operator` | for which part of the program; may be missing or null |
| `to` | of a message: who received it; null, or no such column, of activities |

Rows may come in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import polars as pl

from rechannel.errors import TraceError
from rechannel.profiling.trace import RESERVED, Activities, Messages, Names, Trace

NEEDED = ("worker", "activity", "start", "end")
READERS: Mapping[str, Callable[[Path], pl.DataFrame]] = {
    ".parquet": pl.read_parquet,
    ".csv": pl.read_csv,
    ".jsonl": pl.read_ndjson,
    ".ndjson": pl.read_ndjson,
}
"""By the ending of the file."""


def read_trace(path: str | Path) -> Trace:
    """A trace in the neutral form. Raises TraceError, naming what is wrong with which row."""
    place = Path(path)
    if place.suffix not in READERS:
        msg = f"{place} is not a trace: one ends with {', '.join(READERS)}"
        raise TraceError(msg)
    try:
        return trace_of(READERS[place.suffix](place))
    except (pl.exceptions.PolarsError, OSError) as error:
        msg = f"{place} cannot be read as {place.suffix[1:]}: {error}"
        raise TraceError(msg) from error


def trace_of(rows: pl.DataFrame) -> Trace:
    """A trace of such a table. Raises TraceError."""
    missing = [name for name in NEEDED if name not in rows.columns]
    if missing:
        msg = f"the trace has no column {missing[0]!r}; it has {', '.join(rows.columns)}"
        raise TraceError(msg)
    rows = rows.with_columns(
        pl.lit(None).alias(n) for n in ("operator", "to") if n not in rows.columns
    )
    rows = rows.with_columns(_nanoseconds(rows, name) for name in ("start", "end"))
    for name in NEEDED:
        if rows[name].null_count():
            msg = f"row {rows[name].is_null().arg_max()} of the trace has no {name}"
            raise TraceError(msg)
    texts = {name: rows[name].cast(pl.String) for name in ("worker", "activity", "operator", "to")}
    workers = sorted({*texts["worker"].unique(), *texts["to"].drop_nulls().unique()}, key=_natural)
    operators = sorted(texts["operator"].drop_nulls().unique(), key=_natural)
    kinds = [*RESERVED, *sorted(set(texts["activity"].unique()) - set(RESERVED))]
    codes = {
        "worker": _codes(texts["worker"], workers),
        "to": _codes(texts["to"], workers),
        "activity": _codes(texts["activity"], kinds),
        "operator": _codes(texts["operator"], operators),
    }
    start, end = (rows[name].to_numpy() for name in ("start", "end"))
    sent = codes["to"] >= 0
    local = ~sent
    return Trace(
        names=Names(workers=workers, operators=operators, kinds=kinds),
        activities=Activities(
            worker=codes["worker"][local],
            kind=codes["activity"][local],
            operator=codes["operator"][local],
            start=start[local],
            end=end[local],
        ),
        messages=Messages(
            source=codes["worker"][sent],
            target=codes["to"][sent],
            kind=codes["activity"][sent],
            operator=codes["operator"][sent],
            sent=start[sent],
            received=end[sent],
        ),
    )


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write a trace in the neutral form, as Parquet."""
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


def _nanoseconds(rows: pl.DataFrame, name: str) -> pl.Expr:
    kind = rows.schema[name]
    if kind.is_integer():
        return pl.col(name).cast(pl.Int64)
    if isinstance(kind, pl.Datetime):
        return pl.col(name).dt.timestamp("ns")
    msg = f"column {name!r} of a trace is whole nanoseconds or a timestamp, not {kind}"
    raise TraceError(msg)


def _codes(texts: pl.Series, known: list[str]) -> np.ndarray:
    """Places among names, -1 for null."""
    if not known:
        return np.full(len(texts), -1, dtype=np.int32)
    places = texts.replace_strict(known, list(range(len(known))), return_dtype=pl.Int32)
    return places.fill_null(-1).to_numpy()


def _texts(places: np.ndarray, known: object) -> pl.Series:
    names = pl.Series(list(known), dtype=pl.String)  # type: ignore[call-overload]
    at = pl.Series(places).cast(pl.Int32)
    return names.gather(pl.select(pl.when(at >= 0).then(at)).to_series())


def _natural(name: str) -> tuple[int, int, str]:
    """Numbers in their order, then texts."""
    return (0, int(name), "") if name.isdecimal() else (1, 0, name)
