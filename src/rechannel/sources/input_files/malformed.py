"""Records of text files that are not what the stream's columns say: broken JSON, a text in a column of numbers.

Spark's readers make rows of nulls of them unless they are told otherwise. Here they fail the timestep, unless the
program says what becomes of them:

    fail (default)        `mode=FAILFAST`; the error names file, line and record
    keep in a column      a column of the schema is the one of the option `columnNameOfCorruptRecord`
    dead letters          `files(..., on_error="dead_letter")`: as kept in a column, and parted from the others
    whatever Spark does   the option `mode` is given
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

FORMATS = ("json", "csv", "xml")
"""Formats whose records are texts that may not fit the columns."""

COLUMN = "_malformed"
"""Column that holds the text of such a record where it is parted from the others."""

_OPTION, _USUAL = "columnNameOfCorruptRecord", "_corrupt_record"
_SHOWN = 200


def settled(name: str, options: Mapping[str, str], columns: pa.Schema | None) -> dict[str, str]:
    """Options of Spark's reader by which it fails for such records, unless the program says otherwise.

    columns: of the stream; None = they are to be found out.
    """
    given = {option.lower(): value for option, value in options.items()}
    kept = given.get(_OPTION.lower(), _USUAL)
    if name not in FORMATS or "mode" in given:
        return {}
    if columns is not None and kept in columns.names:
        return {"mode": "PERMISSIVE"}
    return {"mode": "FAILFAST"}


def parting(options: Mapping[str, str]) -> dict[str, str]:
    """Options by which the text of such a record is in `COLUMN`."""
    ours = {"mode", _OPTION.lower()}
    others = {name: value for name, value in options.items() if name.lower() not in ours}
    return {**others, "mode": "PERMISSIVE", _OPTION: COLUMN}


def with_text(schema: pa.Schema) -> pa.Schema:
    """Columns with that of the text."""
    return schema.append(pa.field(COLUMN, pa.string()))


def line_of(file: str, record: str) -> int | None:
    """Number of the first line of a local file that is a record's first line; None where none is."""
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
    """What is wrong with a file, and what to do. record: text of the first such record, where it could be found."""
    where = file if line is None else f"{file}, line {line}"
    short = "" if record is None else f": {record.strip()[:_SHOWN]!r}"
    return (
        f"{where}: this is no {kind} record with the stream's columns{short}. Nothing of the timestep was committed:"
        " mend the file and start again; or let such records leave, files(..., on_error='dead_letter'); or keep their"
        f" text in a column of the schema, named by the option {_OPTION}"
    )
