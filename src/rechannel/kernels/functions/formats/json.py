"""Objects of JSON as columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from rechannel.kernels.functions.formats.format import Format, Parsed, by_halves, joined
from rechannel.kernels.functions.formats.json_columns import as_declared, read_as
from rechannel.kernels.functions.formats.json_suspects import suspects

FIRST = "{}"
"""Line before all others: Arrow's reader crashes where the first one is a null."""
LAST_BREAK = ord("\r")
"""Bytes up to this one are rare in JSON, and line breaks are among them."""
CLEARED = 16
"""Suspects without fault, more than those with one, after which no more are looked for."""
_ROW = re.compile(r" in row \d+$")


@dataclass(frozen=True, eq=False, kw_only=True)
class Json(Format):
    """Reads the columns of a schema.

    Members that the schema does not have are ignored, and columns without a member are null, as is every column for a
    null, be it of the column or the text of one. A value of another type does not fit: a text is no number, 1.5 is no
    whole number. Dates are texts such as "2026-01-31", and bytes are base64.
    """

    called: ClassVar[str] = "JSON"
    schema: pa.Schema

    def __post_init__(self) -> None:
        """Check that the columns can be read. Raises DataflowError."""
        read_as(self.schema)

    @property
    def columns(self) -> pa.Schema:
        """Return the columns of the schema."""
        return self.schema

    def parsed(self, values: pa.Array) -> Parsed:
        """Read values, all at once; if that fails, those that a quick look finds fault with apart. See `Format`."""
        if not len(values):
            return Parsed(rows=joined([], self.schema))
        try:
            return Parsed(rows=self._read(values))
        except ValueError:
            wrong = self._wrong(values)
        if not wrong:
            return self._halved(values)
        left = np.delete(np.arange(len(values)), list(wrong))
        made = self._halved(values.take(pa.array(left)))
        return Parsed(
            rows=made.rows, errors=wrong | {int(left[at]): why for at, why in made.errors.items()}
        )

    def _halved(self, values: pa.Array) -> Parsed:
        return by_halves(
            len(values), lambda start, stop: self._read(values[start:stop]), self.schema
        )

    def _wrong(self, values: pa.Array) -> dict[int, str]:
        """Return why suspects cannot be read, by place. Many suspects without fault end the search."""
        texts = values.cast(pa.binary()).to_pylist()
        wrong, cleared = dict[int, str](), 0
        for place in suspects(texts, self.schema):
            try:
                self._read_one(texts[place])
                cleared += 1
            except ValueError as error:
                wrong[place] = str(error)
            if cleared > CLEARED + len(wrong):
                break
        return wrong

    def _read_one(self, value: bytes) -> None:
        """Read a value, as `_read` does. Raises ValueError."""
        try:
            usual = bool(value.decode().strip())
        except UnicodeDecodeError:
            usual = False
        if not usual:
            self._read(pa.array([value]))
            return
        line = value.replace(b"\r", b" ").replace(b"\n", b" ")
        self._rows(pa.py_buffer(FIRST.encode() + b"\n" + line), 1)

    def _read(self, values: pa.Array) -> pa.RecordBatch:
        """Read values. Raises ValueError if one cannot be read."""
        try:
            lines = _lines(values)
        except pa.ArrowInvalid as error:
            raise ValueError(str(error)) from None
        return self._rows(lines, len(values))

    def _rows(self, lines: pa.Buffer, count: int) -> pa.RecordBatch:
        """Return the rows of as many lines, after the first one. Raises ValueError."""
        (made,) = self._table(lines, count).slice(1).combine_chunks().to_batches()
        columns = [
            as_declared(column, field.type)
            for column, field in zip(made.columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _table(self, lines: pa.Buffer, count: int) -> pa.Table:
        """Return as many objects as were expected, after the first one. Raises ValueError."""
        try:
            table = pj.read_json(
                pa.BufferReader(lines),
                read_options=pj.ReadOptions(use_threads=False, block_size=max(1, lines.size + 1)),
                parse_options=pj.ParseOptions(
                    explicit_schema=read_as(self.schema), unexpected_field_behavior="ignore"
                ),
            )
        except pa.ArrowInvalid as error:
            raise ValueError(_ROW.sub("", str(error))) from None
        if table.num_rows - 1 != count:
            raise ValueError(f"{count} values hold {table.num_rows - 1} objects")
        return table


def _lines(values: pa.Array) -> pa.Buffer:
    """Return one value per line, after `FIRST`. Raises ValueError if lines may hold parts of objects.

    Arrow's reader sees no lines, only objects one after the other. If each line begins and ends with a brace, none of
    them can end within an object: a line break is not allowed in a text, nor `{` or `null` after `}`. So a line holds
    at least one object, and as many objects as lines are one each. A single value needs no such look.
    """
    texts = values.cast(pa.large_binary()).cast(pa.large_string())
    texts = pc.fill_null(texts, pa.scalar("{}", pa.large_string()))
    if not _are_braced(texts):
        trimmed = pc.utf8_trim_whitespace(texts)
        if pc.any(pc.equal(pc.binary_length(trimmed), 0)).as_py():
            raise ValueError("an empty value is no object")
        if len(texts) > 1 and not _are_braced(trimmed):
            raise ValueError("a value among others is no object")
    lines = _joined(texts)
    if np.count_nonzero(np.frombuffer(lines, np.uint8) <= LAST_BREAK) == len(texts):
        return lines
    # Line breaks stand between the parts of an object only: within a text, JSON has them as escapes.
    return _joined(pc.replace_substring_regex(texts, r"[\r\n]", " "))


def _are_braced(texts: pa.Array) -> bool:
    """Return whether all texts begin and end as an object does, or are null."""
    braced = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    if pc.all(braced).as_py():
        return True
    return bool(pc.all(pc.or_(braced, pc.equal(texts, "null"))).as_py())


def _joined(texts: pa.Array) -> pa.Buffer:
    """Return the lines of `FIRST` and of all texts."""
    texts = pa.concat_arrays([pa.array([FIRST], pa.large_string()), texts])
    lists = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    text = pc.binary_join(lists, pa.scalar("\n", pa.large_string()))
    buffer: pa.Buffer = text[0].as_buffer()
    return buffer
