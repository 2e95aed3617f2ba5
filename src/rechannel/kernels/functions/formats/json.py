"""Objects of JSON as columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from rechannel.kernels.functions.formats.format import Format, Parsed, by_halves

FIRST = "{}"
"""Line before all others: Arrow's reader crashes where the first one is a null."""
LAST_BREAK = ord("\r")
"""Bytes up to this one are rare in JSON, and line breaks are among them."""
_ROW = re.compile(r" in row \d+$")


@dataclass(frozen=True, eq=False, kw_only=True)
class Json(Format):
    """Reads the columns of a schema.

    Members that the schema does not have are ignored, and columns without a member are null, as is every column for a
    null, be it of the column or the text of one. A value of another type does not fit: a text is no number, 1.5 is no
    whole number.
    """

    called: ClassVar[str] = "JSON"
    schema: pa.Schema

    @property
    def columns(self) -> pa.Schema:
        """Return the columns of the schema."""
        return self.schema

    def parsed(self, values: pa.Array) -> Parsed:
        """Read values, all at once or by halves. See `Format`."""
        return by_halves(
            len(values), lambda start, stop: self._read(values[start:stop]), self.schema
        )

    def _read(self, values: pa.Array) -> pa.RecordBatch:
        try:
            lines = _lines(values)
            table = pj.read_json(
                pa.BufferReader(lines),
                read_options=pj.ReadOptions(use_threads=False, block_size=max(1, lines.size + 1)),
                parse_options=pj.ParseOptions(
                    explicit_schema=self.schema, unexpected_field_behavior="ignore"
                ),
            )
        except pa.ArrowInvalid as error:
            raise ValueError(_ROW.sub("", str(error))) from None
        if table.num_rows - 1 != len(values):
            raise ValueError(f"{len(values)} values hold {table.num_rows - 1} objects")
        (made,) = table.slice(1).combine_chunks().to_batches()
        return pa.RecordBatch.from_arrays(made.columns, schema=self.schema)


def _lines(values: pa.Array) -> pa.Buffer:
    """Return one value per line, after `FIRST`. Raises ValueError for an empty one, which would not be a line."""
    texts = values.cast(pa.large_binary()).cast(pa.large_string())
    texts = pc.fill_null(texts, pa.scalar("{}", pa.large_string()))
    if pc.any(pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(texts)), 0)).as_py():
        raise ValueError("an empty value is no object")
    lines = _joined(texts)
    if np.count_nonzero(np.frombuffer(lines, np.uint8) <= LAST_BREAK) == len(texts):
        return lines
    # Line breaks stand between the parts of an object only: within a text, JSON has them as escapes.
    return _joined(pc.replace_substring_regex(texts, r"[\r\n]", " "))


def _joined(texts: pa.Array) -> pa.Buffer:
    """Return the lines of `FIRST` and of all texts."""
    texts = pa.concat_arrays([pa.array([FIRST], pa.large_string()), texts])
    lists = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    text = pc.binary_join(lists, pa.scalar("\n", pa.large_string()))
    buffer: pa.Buffer = text[0].as_buffer()
    return buffer
