"""Records of text files that do not have the stream's columns: broken JSON, text in a numeric
column.

By default, Spark's readers turn them into rows of nulls. Here they fail the timestep, unless the
program chooses otherwise:

    fail (default)        `mode=FAILFAST`; the error names file, line and record
    keep in a column      the schema has the column of the option `columnNameOfCorruptRecord`
    dead letters          `files(..., on_error="dead_letter")`: as kept in a column, and separated from the others
    Spark's own choice    the option `mode` is given
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

FORMATS = ("json", "csv", "xml")
"""Formats whose records are texts that may not fit the columns."""

COLUMN = "_malformed"
"""Column with the text of a malformed record when it is separated from the others."""

_OPTION, _USUAL = "columnNameOfCorruptRecord", "_corrupt_record"
_SHOWN = 200


def settled(name: str, options: Mapping[str, str], columns: pa.Schema | None) -> dict[str, str]:
    """Return options that make Spark's reader fail for malformed records, unless the program
    chooses otherwise.

    columns: of the stream; None if they are to be inferred.
    """
    given = {option.lower() for option in options}
    if name not in FORMATS or "mode" in given:
        return {}
    if columns is not None and keeps_text_in(options) in columns.names:
        return {"mode": "PERMISSIVE"}
    return {"mode": "FAILFAST"}


def keeps_text_in(options: Mapping[str, str]) -> str:
    """Return the column in which Spark keeps the text of a malformed record, if the stream has it."""
    given = {option.lower(): value for option, value in options.items()}
    return given.get(_OPTION.lower(), _USUAL)


def parting(options: Mapping[str, str]) -> dict[str, str]:
    """Return options that put the text of a malformed record into `COLUMN`."""
    ours = {"mode", _OPTION.lower()}
    others = {name: value for name, value in options.items() if name.lower() not in ours}
    return {**others, "mode": "PERMISSIVE", _OPTION: COLUMN}


def with_text(schema: pa.Schema) -> pa.Schema:
    """Return columns including the one of the text."""
    return schema.append(pa.field(COLUMN, pa.string()))


def line_of(file: str, record: str) -> int | None:
    """Return the first line of a local file that equals a record's first line; None if there is
    none.
    """
    wanted = record.strip().split("\n", 1)[0].strip()
    try:
        with Path(file).open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip() == wanted:
                    return number
    except OSError:
        return None
    return None


def sentence(file: str, kind: str, record: str | None, line: int | None) -> str:
    """Return what is wrong with a file, and what to do. record: text of the first malformed
    record, if known.
    """
    where = file if line is None else f"{file}, line {line}"
    short = "" if record is None else f": {record.strip()[:_SHOWN]!r}"
    return (
        f"{where}: not a {kind} record with the stream's columns{short}. Nothing of the timestep was committed:"
        " correct the file and have it picked up again with start(replan=True); or divert such records with"
        " files(..., on_error='dead_letter'); or keep"
        f" their text in a column of the schema, named by the option {_OPTION}"
    )
