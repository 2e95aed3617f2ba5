"""Which dead letters are tried again: those that were not yet, and whose rows still fit their operator. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from rechannel.errors import RefusedError
from rechannel.kernels.functions.letter_rows import attempts_in, letter_rows
from rechannel.sources.replayed.log import ATTEMPTS, LETTER, ROW_KEY, taking_schema

MOST_ROWS = 100_000
"""Rows of an operator that one call replays."""
MOST_BYTES = 64 << 20
"""Bytes of their texts."""

_CUT = re.compile(r"\(\d+ bytes; the first \d+ are here\)$")
"""Ends the error of a record of which the dead letter has the beginning only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be replayed."""

    operators: tuple[str, ...] = ()
    """() = all that take replayed rows."""
    error: str = ""
    """A part of the error; "" = any."""
    since: int | None = None
    """The first timestep; None = from the first on."""
    until: int | None = None
    """The last one; None = up to the latest."""
    cause: str = ""

    def __post_init__(self) -> None:
        """Check the range. Raises RefusedError."""
        if self.since is not None and self.until is not None and self.since > self.until:
            msg = f"timesteps {self.since} to {self.until} are none: give the first one before the last"
            raise RefusedError(msg)


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What earlier calls have taken of an operator's dead letters."""

    letters: Mapping[bytes, int] = field(default_factory=dict)
    """How many of each. Dead letters that are equal in everything have one key."""
    tries: Mapping[bytes, int] = field(default_factory=dict)
    """How often each row was tried before its latest replay."""

    @classmethod
    def of(cls, files: Iterable[pa.RecordBatch]) -> Taken:
        """Return what files of the log say."""
        letters: Counter[bytes] = Counter()
        tries: dict[bytes, int] = {}
        for file in files:
            letters.update(file.column(LETTER).to_pylist())
            tries.update(
                zip(
                    file.column(ROW_KEY).to_pylist(), file.column(ATTEMPTS).to_pylist(), strict=True
                )
            )
        return cls(letters=letters, tries=tries)


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What is replayed of one operator."""

    taken: pa.RecordBatch
    """Rows for the log, by attempts."""
    errors: Mapping[str, int]
    """How many rows, by error."""
    refused: Mapping[str, int]
    """How many cannot be, by reason."""
    before: int
    """How many were replayed before."""
    left: int
    """How many are left for another call."""


def choose(
    letters: pa.Table,
    operator: str,
    asked: Asked,
    taken: Taken,
    schema: pa.Schema,
    needed: frozenset[str],
) -> Chosen:
    """Return which of the dead letters of an operator are replayed.

    schema: columns of what the operator reads. needed: those that it needs.
    """
    mine = letters.filter(pc.equal(letters.column("operator"), operator))
    facts = mine.sort_by("at_timestep").to_pylist()
    open_, before = _not_taken(facts, taken)
    wanted = [one for one in open_ if asked.error in one["error"]]
    whole = [one for one in wanted if not _CUT.search(one["error"])]
    refused = Counter({"only the beginning of the record was kept": len(wanted) - len(whole)})
    now = _bounded(whole)
    found = letter_rows([one["row"] for one in now], schema, needed)
    refused.update(found.refused.values())
    good = [now[number] for number in found.numbers]
    return Chosen(
        taken=_for_log(good, found.rows, taken),
        errors=Counter(one["error"] for one in good),
        refused=+refused,
        before=before,
        left=len(whole) - len(now),
    )


def _not_taken(
    facts: Sequence[Mapping[str, Any]], taken: Taken
) -> tuple[list[Mapping[str, Any]], int]:
    """Return the dead letters that no call has taken, and how many one has."""
    left = dict(taken.letters)
    open_ = []
    for one in facts:
        key = _letter_key(one)
        if left.get(key, 0):
            left[key] -= 1
        else:
            open_.append(one)
    return open_, len(facts) - len(open_)


def _bounded(letters: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return as many as one call replays, at least one."""
    size = 0
    for number, one in enumerate(letters[:MOST_ROWS]):
        size += len(one["row"])
        if size > MOST_BYTES:
            return letters[: max(1, number)]
    return letters[:MOST_ROWS]


def _for_log(
    letters: Sequence[Mapping[str, Any]], rows: pa.RecordBatch, taken: Taken
) -> pa.RecordBatch:
    row_keys = [_row_key(one) for one in letters]
    tries = [
        attempts_in(one["offset"]) or taken.tries.get(key, 0) + 1
        for one, key in zip(letters, row_keys, strict=True)
    ]
    schema = taking_schema(rows.schema)
    columns = [
        pa.array([_letter_key(one) for one in letters], schema.field(LETTER).type),
        pa.array(row_keys, schema.field(ROW_KEY).type),
        pa.array(tries, pa.int64()),
        pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema)),
    ]
    made = pa.RecordBatch.from_arrays(columns, schema=schema)
    order = sorted(range(len(tries)), key=lambda number: tries[number])  # stable
    return made.take(pa.array(order, pa.int64()))


def _letter_key(letter: Mapping[str, Any]) -> bytes:
    where = f"{letter['at_timestep']}\0{letter['offset'] or ''}\0"
    return xxhash.xxh3_128_digest(where.encode() + letter["row"].encode())


def _row_key(letter: Mapping[str, Any]) -> bytes:
    return xxhash.xxh3_128_digest(letter["row"].encode())
