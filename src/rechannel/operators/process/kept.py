"""The states of all keys of a call as columns, for the vectorised `process`. Values: a change makes another one.

So a function that fails for some keys is taken back by going on with what there was before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.sorting import take
from rechannel.model.buffers import IntArray, Mask
from rechannel.operators.process.handles import Made
from rechannel.operators.process.states import MapState, State, as_texts, from_texts
from rechannel.operators.process.stored import (
    Held,
    Piece,
    constant_entries,
    constant_rows,
    element_rows,
    entries_of,
)

FRESH = -1
"""Where a row is stored that is not stored yet."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Kept:
    """Rows of one state of all keys: of a value, at most one per key."""

    name: str
    state: State
    owners: IntArray
    """Position of the key of each row, ascending."""
    origins: IntArray
    """Position among the stored rows; FRESH for rows of this timestep."""
    values: pa.Array
    """What they hold."""
    stored: IntArray
    """Positions of all rows that were stored."""

    @classmethod
    def of(cls, name: str, state: State, held: Held) -> Self:
        """Return what is stored."""
        some, values = held.of(name)
        owners = held.stored.owners[some]
        return cls(name=name, state=state, owners=owners, origins=some, values=values, stored=some)

    def where(self, mask: Mask) -> Self:
        """Return some of the rows."""
        if mask.all():
            return self
        some = np.flatnonzero(mask)
        return replace(
            self,
            owners=self.owners[some],
            origins=self.origins[some],
            values=take([self.values], some)[0],
        )

    def without(self, keys: IntArray) -> Self:
        """Return the rows of other keys."""
        if np.array_equal(self.owners, keys):
            return self.where(np.zeros(len(keys), dtype=np.bool_))
        return self.where(~np.isin(self.owners, keys))

    def with_rows(self, owners: IntArray, values: pa.Array) -> Self:
        """Return the rows with others after them, key by key. owners: in any order."""
        if not len(self.owners) and not (owners[1:] < owners[:-1]).any():
            origins = np.full(len(owners), FRESH)
            return replace(self, owners=owners, origins=origins, values=values)
        every = np.concatenate([self.owners, owners])
        origins = np.concatenate([self.origins, np.full(len(owners), FRESH)])
        order = np.argsort(every, kind="stable")
        (column,) = take([pa.concat_arrays([self.values, values])], order)
        return replace(self, owners=every[order], origins=origins[order], values=column)

    def rows_of(self, keys: IntArray) -> pa.Array:
        """Return the row of each key, null if there is none. It is for values. keys: in any order."""
        at = np.searchsorted(self.owners, keys)
        at = np.minimum(at, max(0, len(self.owners) - 1))
        missing = self.owners[at] != keys if len(self.owners) else np.ones(len(keys), np.bool_)
        return pa.array(at, mask=missing)

    def columns(self, some: IntArray) -> Columns:
        """Return the columns of some rows."""
        flat: Columns = take([self.values], some)[0].flatten()
        return flat

    def pieces(self, made: Made, places: IntArray) -> Iterator[Piece]:
        """Yield the rows to write. places: next free place of each key; it is moved on."""
        fresh = np.flatnonzero(self.origins == FRESH)
        owners = self.owners[fresh]
        if len(fresh):
            yield Piece(
                state=self.name,
                owners=owners,
                entries=self._entries(fresh),
                rows=self._rows(owners, made.timestep, places),
                untils=made.untils(self.state, len(fresh)),
                values=take([self.values], fresh)[0],
            )
        gone = self._gone(made.held, fresh)
        if len(gone):
            yield made.held.ending(self.name, gone)

    def _entries(self, fresh: IntArray) -> pa.Array:
        return constant_entries(self.name, len(fresh))

    def _rows(self, owners: IntArray, timestep: int, places: IntArray) -> IntArray | None:
        """Return `_row` of fresh rows; None = the hash of `_entry`."""
        del timestep, places
        return constant_rows(self.name, len(owners))

    def _gone(self, held: Held, fresh: IntArray) -> IntArray:
        """Return the positions of stored rows that are there no more, and are not written anew."""
        left = self._left(held)
        if not len(left):
            return left
        again = np.zeros(held.count, dtype=np.bool_)
        again[self.owners[fresh]] = True
        return left[~again[held.stored.owners[left]]]

    def _left(self, held: Held) -> IntArray:
        """Return the positions of stored rows that are there no more."""
        there = np.zeros(len(held.stored.owners), dtype=np.bool_)
        there[self.origins[self.origins != FRESH]] = True
        return self.stored[~there[self.stored]]


@dataclass(frozen=True, eq=False, kw_only=True)
class KeptList(Kept):
    """Elements of lists, in their order."""

    def without_first(self, counts: IntArray) -> KeptList:
        """Return the lists without their first elements. counts: how many of them go, of every key, by position."""
        return self.where(self._ranks(self.owners) >= counts[self.owners])

    def _rows(self, owners: IntArray, timestep: int, places: IntArray) -> IntArray:
        rows = element_rows(timestep, places[owners] + self._ranks(owners))
        places += np.bincount(owners, minlength=len(places))
        return rows

    def _gone(self, held: Held, fresh: IntArray) -> IntArray:
        del fresh
        return self._left(held)

    @staticmethod
    def _ranks(owners: IntArray) -> IntArray:
        """Return which one of its key's rows each one is."""
        firsts: IntArray = np.searchsorted(owners, owners)
        return np.arange(len(owners), dtype=np.int64) - firsts


@dataclass(frozen=True, eq=False, kw_only=True)
class KeptMap(Kept):
    """Entries of maps. texts: their keys."""

    texts: pa.Array
    state: MapState

    @classmethod
    def of(cls, name: str, state: State, held: Held) -> KeptMap:
        """Return what is stored."""
        plain = Kept.of(name, state, held)
        entries = take([held.entries], plain.origins)[0]
        texts = pc.utf8_slice_codeunits(entries, len(name) + 1, None)
        known = {each: getattr(plain, each) for each in plain.__dataclass_fields__}
        return cls(texts=texts, **known)

    def where(self, mask: Mask) -> KeptMap:
        """Return some of the entries."""
        if mask.all():
            return self
        texts = take([self.texts], np.flatnonzero(mask))[0]
        return replace(Kept.where(self, mask), texts=texts)

    def with_entries(self, owners: IntArray, keys: pa.Array, values: pa.Array) -> KeptMap:
        """Return the maps with entries set; of those with one key, the last one stays."""
        made = self.without_entries(owners, keys)
        every = np.concatenate([made.owners, owners])
        order = np.argsort(every, kind="stable")
        texts = pa.concat_arrays([made.texts, as_texts(keys)])
        made = replace(made.with_rows(owners, values), texts=take([texts], order)[0])
        codes = made._codes(made.owners, made.texts)
        _, last = np.unique(codes[::-1], return_index=True)
        kept = np.zeros(len(codes), dtype=np.bool_)
        kept[len(codes) - 1 - last] = True
        return made.where(kept)

    def without_entries(self, owners: IntArray, keys: pa.Array) -> KeptMap:
        """Return the maps without some entries."""
        every = pa.concat_arrays([self.texts, as_texts(keys)])
        codes = self._codes(np.concatenate([self.owners, owners]), every)
        count = len(self.owners)
        return self.where(~np.isin(codes[:count], codes[count:]))

    def in_order(self, some: IntArray) -> tuple[IntArray, pa.Array]:
        """Return some entries in the order of their keys, key by key, and these keys."""
        keys = from_texts(take([self.texts], some)[0], self.state.key_field.type)
        table = pa.table({"owner": self.owners[some], "key": keys})
        order = pc.sort_indices(table, [("owner", "ascending"), ("key", "ascending")])
        return some[order.to_numpy()], keys.take(order)

    def _rows(self, owners: IntArray, timestep: int, places: IntArray) -> None:
        del owners, timestep, places

    def _entries(self, fresh: IntArray) -> pa.Array:
        return entries_of(self.name, take([self.texts], fresh)[0])

    def _gone(self, held: Held, fresh: IntArray) -> IntArray:
        left = self._left(held)
        entries = pa.concat_arrays([take([held.entries], left)[0], self._entries(fresh)])
        owners = np.concatenate([held.stored.owners[left], self.owners[fresh]])
        codes = self._codes(owners, entries)
        return left[~np.isin(codes[: len(left)], codes[len(left) :])]

    @staticmethod
    def _codes(owners: IntArray, texts: pa.Array) -> IntArray:
        """Return a number for each pair of a key and a text."""
        encoded = texts.dictionary_encode()
        codes: IntArray = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return owners * max(1, len(encoded.dictionary)) + codes


KEPT: dict[str, type[Kept]] = {"value": Kept, "list": KeptList, "map": KeptMap}
"""By kind of state."""
