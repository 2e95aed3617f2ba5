"""Which dead letters are tried again: those that were not yet, and whose rows still fit their operator. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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

AT_ONCE = 1_000
"""Rows that are made of their texts at a time."""

_BEGINNING = "only the beginning of the record was kept"
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
    sifted = _Sifted(asked=asked, not_taken=NotTaken(taken), schema=schema, needed=needed)
    for piece in letters:
        sifted.add(piece)
    good, rows = sifted.held()
    return Chosen(
        taken=_for_log(good, rows, taken),
        errors=Counter(good.column("error").to_pylist()),
        refused=+sifted.refused,
        before=sifted.before,
        left=sifted.left,
    )


@dataclass(kw_only=True)
class _Sifted:
    """What has come of the dead letters so far. Of those that one call does not replay, only the number is held."""

    asked: Asked
    not_taken: NotTaken
    schema: pa.Schema
    needed: frozenset[str]
    before: int = 0
    """Dead letters that were replayed before."""
    refused: Counter[str] = field(default_factory=Counter)
    """Of those that are asked for, the ones that cannot be, by reason; of those that are left it is not known."""
    left: int = 0
    """Of those that are asked for, the ones for which there was no room."""
    _letters: list[pa.RecordBatch] = field(default_factory=list)
    _rows: list[pa.RecordBatch] = field(default_factory=list)
    """The rows of these."""
    _count: int = 0
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
        self.refused[_BEGINNING] += wanted.num_rows - whole.num_rows
        for start in range(0, whole.num_rows, AT_ONCE):
            if self.left:  # one has been left already
                self.left += whole.num_rows - start
                return
            self._hold(whole.slice(start, AT_ONCE))

    def _hold(self, whole: pa.RecordBatch) -> None:
        """Hold those whose rows fit the operator: as many as one call replays, and one at least."""
        found = letter_rows(whole.column("row").to_pylist(), self.schema, self.needed)
        self.refused.update(found.refused.values())
        good = whole.take(pa.array(found.numbers, pa.int64()))
        sizes = sum(_sizes(good.column(name)) for name in ("row", "error", "offset"))
        ends = self._bytes + np.cumsum(sizes)
        fit = min(int(np.searchsorted(ends, MOST_BYTES, "right")), MOST_ROWS - self._count)
        if not self._count:
            fit = max(fit, min(1, good.num_rows))
        self.left += good.num_rows - fit
        if fit:
            first = pa.array(np.arange(fit))  # a slice would hold all of them
            self._letters.append(good.take(first))
            self._rows.append(found.rows.take(first))
            self._count, self._bytes = self._count + fit, int(ends[fit - 1])

    def held(self) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Return those that are replayed, by timestep, and their rows."""
        letters, rows = _joined(self._letters, WHOLE_LETTER), _joined(self._rows, self.schema)
        order = np.argsort(letters.column("at_timestep").to_numpy(), kind="stable")
        return letters.take(pa.array(order)), rows.take(pa.array(order))


def _joined(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    return pa.concat_batches([pa.RecordBatch.from_pylist([], schema=schema), *batches])


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
