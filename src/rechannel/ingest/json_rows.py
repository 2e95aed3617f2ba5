"""Rows in JSON: one object per line, or an array of objects.

The whole body is read at once by Arrow. Only if that fails, the first wrong row is looked for, and in it the column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import pyarrow as pa
import pyarrow.json as pj

from rechannel.errors import RechannelError
from rechannel.ingest.columns import BadRowsError, Columns
from rechannel.model.ddl import type_name

_SHOWN = 60
_ARROWS = re.compile(r"^JSON parse error: | in row \d+$")
"""What Arrow says of its own place in the text."""
_LINES = msgspec.json.Decoder(msgspec.Raw)
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])

CURL = "one JSON object per line is expected (with curl: --data-binary, not --data)"


def read_lines(body: bytes, columns: Columns) -> pa.RecordBatch:
    """Return the rows of JSON lines. Raises BadRowsError, TooManyRowsError."""
    columns.check_count(body.count(b"\n") + 1)
    columns.check_arrays(body)
    _check_text(body)
    try:
        objects = _LINES.decode_lines(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _bad_line(body, error) from None
    return _rows(objects, columns)


def read_array(body: bytes, columns: Columns) -> pa.RecordBatch:
    """Return the rows of a JSON array of objects. Raises BadRowsError, TooManyRowsError."""
    columns.check_count(body.count(b"{"))
    columns.check_arrays(body)
    _check_text(body)
    try:
        objects = _ARRAY.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadRowsError(f"the body is no JSON array of objects: {error}") from None
    return _rows(objects, columns)


def _check_text(body: bytes) -> None:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        row = body.count(b"\n", 0, error.start) + 1
        raise BadRowsError(f"line {row:,} of the body is not UTF-8") from None


def _bad_line(body: bytes, error: BaseException) -> BadRowsError:
    lines = [line for line in body.split(b"\n") if line.strip()]
    for number, line in enumerate(lines, start=1):
        try:
            _LINES.decode(line)
        except (msgspec.MsgspecError, RecursionError) as wrong:
            return BadRowsError(f"{wrong}: {CURL}; it is {_cut(line)}", number)
    return BadRowsError(f"{error}: {CURL}")


def _rows(objects: Sequence[msgspec.Raw], columns: Columns) -> pa.RecordBatch:
    columns.check_count(len(objects))  # a line may have several
    if not objects:
        return pa.RecordBatch.from_pylist([], columns.schema)
    lines = _lines(objects)
    # Arrow dies of a null in place of an object.
    if lines.count(b"\n{") + lines.startswith(b"{") != len(objects):
        raise _no_object(objects)
    try:
        rows = _typed(_parsed(lines, len(objects), columns), columns)
    except pa.ArrowException as error:
        raise _first_wrong(objects, columns, error) from None
    columns.check_nulls(rows)
    return rows


def _lines(objects: Sequence[msgspec.Raw]) -> bytes:
    """Return values as lines, each in one."""
    lines = b"\n".join(objects)
    if lines.count(b"\n") < len(objects):
        return lines
    # Only white space between the parts of an object has line breaks.
    return b"\n".join(bytes(each).replace(b"\n", b" ") for each in objects)


def _no_object(objects: Sequence[msgspec.Raw]) -> BadRowsError:
    for number, each in enumerate(map(bytes, objects), start=1):
        if not each.startswith(b"{"):
            return BadRowsError(f"{_cut(each)} is no JSON object", number)
    return BadRowsError("a row is no JSON object")


def _parsed(lines: bytes, count: int, columns: Columns) -> pa.RecordBatch:
    """Return the objects in lines as rows. Raises ArrowException."""
    table = pj.read_json(
        pa.BufferReader(lines),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=columns.as_text,
            unexpected_field_behavior="ignore" if columns.ignore_unknown else "error",
        ),
    )
    (rows,) = table.combine_chunks().to_batches()
    if rows.num_rows != count:
        raise pa.ArrowInvalid(f"{count} objects make {rows.num_rows} rows")
    return rows


def _typed(rows: pa.RecordBatch, columns: Columns) -> pa.RecordBatch:
    typed = [rows.column(each.name).cast(each.type) for each in columns.schema]
    return pa.RecordBatch.from_arrays(typed, schema=columns.schema)


def _first_wrong(
    objects: Sequence[msgspec.Raw], columns: Columns, error: RechannelError | pa.ArrowException
) -> BadRowsError:
    """Return the error of the first object that is no row, found by halves."""
    low, high = 0, len(objects)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _wrong(objects[low:middle], columns) else (middle, high)
    said = _wrong(objects[low : low + 1], columns)
    if said is None:
        return BadRowsError(str(error))
    return _wrong_column(objects[low], columns, low + 1) or BadRowsError(said, low + 1)


def _wrong(objects: Sequence[msgspec.Raw], columns: Columns) -> str | None:
    try:
        _typed(_parsed(_lines(objects), len(objects), columns), columns)
    except pa.ArrowException as error:
        return _ARROWS.sub("", str(error))
    return None


def _wrong_column(one: msgspec.Raw, columns: Columns, row: int) -> BadRowsError | None:
    members = _OBJECT.decode(one)
    for name, value in members.items():
        if name not in columns.schema.names:
            if columns.ignore_unknown:
                continue
            known = ", ".join(columns.schema.names)
            return BadRowsError(f"there is no such column; there are {known}", row, name)
        alone = Columns(pa.schema([columns.schema.field(name)]), columns.ignore_unknown)
        key = msgspec.json.encode(name)
        said = _wrong([msgspec.Raw(b"{" + key + b":" + bytes(value) + b"}")], alone)
        if said is not None:
            kind = type_name(columns.schema.field(name).type)
            return BadRowsError(f"{_cut(bytes(value))} is no {kind}", row, name)
    return None


def _cut(text: bytes) -> str:
    shown = text[:_SHOWN].decode(errors="replace")
    return shown if len(text) <= _SHOWN else f"{shown}..."
