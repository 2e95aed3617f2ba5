"""Which dead letters are tried again: those that were not yet, and whose rows still fit their operator. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.engine.letters.taken import NotTaken, Taken, as_column, letter_keys, row_keys
from rechannel.errors import RefusedError
from rechannel.kernels.functions.dead_letters import WHOLE_LETTER
from rechannel.kernels.functions.letter_rows import attempts_in, letter_rows
from rechannel.sources.replayed.log import taking_schema

MOST_ROWS = 100_000
"""Rows of an operator that one call replays."""
MOST_BYTES = 64 << 20
"""Bytes of their texts: rows, errors and offsets."""

_CUT = r"\(\d+ bytes; the first \d+ are here\)$"
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
    letters: Iterable[pa.RecordBatch],
    asked: Asked,
    taken: Taken,
    schema: pa.Schema,
    needed: frozenset[str],
) -> Chosen:
    """Return which of the dead letters of an operator are replayed.

    letters: all of the timesteps that are asked for, piece by piece, with the columns of `WHOLE_LETTER`. schema:
    columns of what the operator reads. needed: those that it needs.
    """
    sifted = _Sifted(asked=asked, not_taken=NotTaken(taken))
    for piece in letters:
        sifted.add(piece)
    now = sifted.held()
    found = letter_rows(now.column("row").to_pylist(), schema, needed)
    refused = Counter({"only the beginning of the record was kept": sifted.cut})
    refused.update(found.refused.values())
    good = now.take(pa.array(found.numbers, pa.int64()))
    return Chosen(
        taken=_for_log(good, found.rows, taken),
        errors=Counter(good.column("error").to_pylist()),
        refused=+refused,
        before=sifted.before,
        left=sifted.whole - now.num_rows,
    )


@dataclass(kw_only=True)
class _Sifted:
    """What has come of the dead letters so far. Of those that one call does not replay, only the number is held."""

    asked: Asked
    not_taken: NotTaken
    before: int = 0
    """Dead letters that were replayed before."""
    cut: int = 0
    """Of those that are asked for, the ones without a whole record."""
    whole: int = 0
    """Of those that are asked for, the others."""
    _held: list[pa.RecordBatch] = field(default_factory=list)
    _rows: int = 0
    _bytes: int = 0

    def add(self, piece: pa.RecordBatch) -> None:
        """Take the next ones into account."""
        open_ = self.not_taken.among(letter_keys(piece))
        self.before += len(open_) - int(open_.sum())
        wanted = piece.filter(pa.array(open_))
        wanted = wanted.filter(pc.match_substring(wanted.column("error"), self.asked.error))
        whole = wanted.filter(
            pc.invert(pc.match_substring_regex(wanted.column("error"), pattern=_CUT))
        )
        self.cut += wanted.num_rows - whole.num_rows
        if self._rows == self.whole:  # else one has been left already
            self._hold(whole)
        self.whole += whole.num_rows

    def _hold(self, whole: pa.RecordBatch) -> None:
        """Hold as many as one call replays, and one at least."""
        sizes = sum(_sizes(whole.column(name)) for name in ("row", "error", "offset"))
        ends = self._bytes + np.cumsum(sizes)
        fit = min(int(np.searchsorted(ends, MOST_BYTES, "right")), MOST_ROWS - self._rows)
        if not self._rows:
            fit = max(fit, min(1, whole.num_rows))
        if fit:
            first = whole.take(pa.array(np.arange(fit)))  # a slice would hold all of them
            self._held.append(first)
            self._rows, self._bytes = self._rows + fit, int(ends[fit - 1])

    def held(self) -> pa.RecordBatch:
        """Return those that are replayed, by timestep."""
        every = pa.Table.from_batches(self._held, WHOLE_LETTER).sort_by("at_timestep")
        return pa.RecordBatch.from_arrays(
            [pa.concat_arrays([pa.array([], c.type), *c.chunks]) for c in every.columns],
            schema=WHOLE_LETTER,
        )


def _sizes(texts: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(pc.binary_length(texts), 0), np.int64)


def _for_log(letters: pa.RecordBatch, rows: pa.RecordBatch, taken: Taken) -> pa.RecordBatch:
    keys = row_keys(letters)
    known = [attempts_in(offset) or 0 for offset in letters.column("offset").to_pylist()]
    tries = np.where(known, known, taken.tries_of(keys) + 1).astype(np.int64)
    schema = taking_schema(rows.schema)
    columns = [
        as_column(letter_keys(letters)),
        as_column(keys),
        pa.array(tries),
        pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema)),
    ]
    made = pa.RecordBatch.from_arrays(columns, schema=schema)
    return made.take(pa.array(np.argsort(tries, kind="stable")))
