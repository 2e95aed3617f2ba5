"""Which dead letters earlier calls have taken. Pure.

A dead letter is known by 16 bytes, made of its row, its timestep and its offset; so is a row. Nothing else is held of
those that were taken, however many they are. Dead letters that are equal in all of these have one key, and are counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.model import xxh64
from rechannel.sources.replayed.log import ATTEMPTS, LETTER, ROW_KEY

Keys = npt.NDArray[np.bytes_]
"""Shape (rows,), 16 bytes each."""

_KEY = "S16"
_SEEDS = xxh64.SEED, xxh64.SEED + 1


def row_keys(letters: pa.RecordBatch) -> Keys:
    """Return the keys of the rows of dead letters. letters: with the columns of `WHOLE_LETTER`."""
    return _keys([xxh64.of_bytes(letters.column("row"), seed) for seed in _SEEDS])


def letter_keys(letters: pa.RecordBatch) -> Keys:
    """Return the keys of dead letters."""
    at = letters.column("at_timestep").to_numpy().view(np.uint64)
    offsets = xxh64.of_bytes(pc.fill_null(letters.column("offset"), ""))
    where = xxh64.of_pairs(at, offsets)
    rows = row_keys(letters).view(np.uint64).reshape(-1, len(_SEEDS))
    return _keys([xxh64.of_words(half, where) for half in rows.T])


def as_column(keys: Keys) -> pa.Array:
    """Return keys as the log has them."""
    held = pa.py_buffer(np.ascontiguousarray(keys))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(keys), [None, held])


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What earlier calls have taken of an operator's dead letters."""

    letters: Keys
    """Of each once, ascending."""
    counts: npt.NDArray[np.int64]
    """How often each was taken."""
    rows: Keys
    """Of each once, ascending."""
    tries: npt.NDArray[np.int64]
    """How often each row was tried before its latest replay."""

    @classmethod
    def of(cls, files: Iterable[pa.RecordBatch]) -> Taken:
        """Return what files of the log say. They are read one after the other."""
        found = [(_of(f, LETTER), _of(f, ROW_KEY), f.column(ATTEMPTS).to_numpy()) for f in files]
        none = np.empty(0, _KEY)
        every = np.concatenate([none, *(letters for letters, _, _ in found)])
        letters, counts = np.unique(every, return_counts=True)
        # The last of equal keys counts, and `unique` returns the first.
        backwards = np.concatenate([none, *(rows for _, rows, _ in found)])[::-1]
        rows, last = np.unique(backwards, return_index=True)
        tries = np.concatenate([np.empty(0, np.int64), *(tries for _, _, tries in found)])[::-1]
        return cls(letters=letters, counts=counts, rows=rows, tries=tries[last])

    def tries_of(self, rows: Keys) -> npt.NDArray[np.int64]:
        """Return how often each row was tried before its latest replay; 0 for rows that were not replayed."""
        at, known = _places(self.rows, rows)
        tries = np.zeros(len(rows), np.int64)
        tries[known] = self.tries[at[known]]
        return tries


class NotTaken:
    """Tells dead letters that no call has taken from the others, piece by piece."""

    def __init__(self, taken: Taken) -> None:
        """Begin with none of them seen."""
        self._letters, self._left = taken.letters, taken.counts.copy()

    def among(self, letters: Keys) -> npt.NDArray[np.bool_]:
        """Return which of the next dead letters no call has taken: of equal ones, those after as many as were taken."""
        at, known = _places(self._letters, letters)
        numbers = np.flatnonzero(known)
        numbers = numbers[np.argsort(at[numbers], kind="stable")]
        which = at[numbers]
        rank = np.arange(len(which)) - np.searchsorted(which, which)
        taken = rank < self._left[which]
        np.subtract.at(self._left, which[taken], 1)
        open_ = np.ones(len(letters), np.bool_)
        open_[numbers[taken]] = False
        return open_


def _places(known: Keys, keys: Keys) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return where each key is among known ones, and whether it is there at all. known: ascending."""
    at = np.searchsorted(known, keys)
    there = at < len(known)
    there[there] = known[at[there]] == keys[there]
    return at, there


def _keys(halves: list[xxh64.HashArray]) -> Keys:
    keys: Keys = np.stack(halves, axis=1).view(_KEY).ravel()
    return keys


def _of(file: pa.RecordBatch, name: str) -> Keys:
    column = file.column(name)
    keys: Keys = np.frombuffer(column.buffers()[1], _KEY)
    return keys[column.offset : column.offset + len(column)].copy()
