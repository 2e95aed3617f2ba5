"""The order of keys, which separates unequal keys that share a hash, at the cost of a sort.

Every column becomes *ranks*: integers that are equal if GROUP BY treats the values as equal, and
ordered like the canonical values: numbers by value, byte strings byte by byte, lists element by
element, structs field by field, maps as sorted lists of their entries, null first. The order of
two keys depends on these two keys alone, so neither arrival nor merging shows in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.model.buffers import IntArray, list_offsets, numbers, ragged, validity, word_pairs
from rechannel.model.canonical import canonical


def key_ranks(columns: Sequence[pa.Array]) -> list[IntArray]:
    """Rank the values of every key column among those of the same column; null is -1."""
    return [_ranks(canonical(column)) for column in columns]


def partners(
    owners: IntArray, keys: Sequence[pa.Array], others: IntArray, stored: Sequence[pa.Array]
) -> IntArray:
    """Return for every row of `others` the row of `owners` with the same number and an equal key;
    -1 for none.

    owners, others: numbers of the groups that rows belong to. keys, stored: key columns of both;
    `keys` are distinct within a group.
    """
    count = len(owners)
    ranks = [
        _ranks(pa.concat_arrays([canonical(one), canonical(other)]))
        for one, other in zip(keys, stored, strict=True)
    ]
    columns = [np.concatenate([owners, others]), *ranks]
    order = np.lexsort(columns[::-1])  # stable: among equal rows, the one of `owners` is first
    heads = np.flatnonzero(edges_of([column[order] for column in columns]))
    firsts = np.repeat(order[heads], np.diff(np.append(heads, len(order))))
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.where(firsts < count, firsts, -1)
    return found[count:]


def edges_of(columns: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.bool_]:
    """Return which rows differ from the previous row in any column; the first row always does."""
    edges = np.zeros(len(columns[0]), dtype=np.bool_)
    edges[:1] = True
    for column in columns:
        edges[1:] |= column[1:] != column[:-1]
    return edges


def _ranks(plain: pa.Array) -> IntArray:
    """Rank canonical values."""
    kind, valid = plain.type, validity(plain)
    if pa.types.is_null(kind):
        ranks = np.full(len(plain), -1, dtype=np.int64)
    elif pa.types.is_int64(kind) or pa.types.is_float64(kind):
        ranks = _dense([_ordered_bits(plain)])
    elif pa.types.is_large_binary(kind):
        ranks = _byte_ranks(plain)
    elif pa.types.is_decimal(kind):
        low, high = word_pairs(plain)
        ranks = _dense([high, low])
    elif pa.types.is_struct(kind):
        ranks = _dense([_ranks(plain.field(i)) for i in range(kind.num_fields)], len(plain))
    elif pa.types.is_map(kind):
        ranks = _entry_ranks(plain)
    else:
        ranks = _sequence_ranks(list_offsets(plain), _ranks(plain.values), valid)
    return ranks if valid is None else np.where(valid, ranks, -1)


def _ordered_bits(plain: pa.Array) -> npt.NDArray[np.generic]:
    """Return integers ordered like the values; those of floats are their bits, and NaN is the
    largest.
    """
    values = numbers(plain)
    if values.dtype == np.int64:
        return values
    bits: IntArray = values.view(np.int64)
    return bits ^ ((bits >> 63) & np.iinfo(np.int64).max)  # of negative ones, more bits mean less


def _dense(columns: Sequence[npt.NDArray[np.generic]], rows: int | None = None) -> IntArray:
    """Rank rows by the first column, ties by the next one, and so on."""
    count = len(columns[0]) if rows is None else rows
    if not columns or not count:
        return np.zeros(count, dtype=np.int64)
    order = np.lexsort(list(columns)[::-1])
    edges = np.zeros(count, dtype=np.bool_)
    for column in columns:
        moved = column[order]
        edges[1:] |= moved[1:] != moved[:-1]
    ranks = np.empty(count, dtype=np.int64)
    ranks[order] = np.cumsum(edges)
    return ranks


def _byte_ranks(plain: pa.Array) -> IntArray:
    encoded = plain.dictionary_encode()
    places = np.empty(len(encoded.dictionary), dtype=np.int64)
    places[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(places))
    codes = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return places[codes] if len(places) else np.zeros(len(plain), dtype=np.int64)


def _sequence_ranks(
    offsets: IntArray, elements: IntArray, valid: npt.NDArray[np.bool_] | None
) -> IntArray:
    """Rank sequences of ranked elements: as byte strings of their ranks, the high byte first."""
    lengths = np.diff(offsets)
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    used = elements[ragged(offsets[:-1], lengths)] + 1  # null, -1, comes first
    borders = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)]) * 8
    raw = [None, pa.py_buffer(borders), pa.py_buffer(used.astype(">u8"))]
    return _byte_ranks(pa.Array.from_buffers(pa.large_binary(), len(lengths), raw))


def _entry_ranks(plain: pa.Array) -> IntArray:
    """Rank maps, whose entries may stand in any order."""
    offsets = list_offsets(plain)
    first, last = int(offsets[0]), int(offsets[-1])
    sides = [side.slice(first, last - first) for side in (plain.keys, plain.items)]
    entries = _dense([_ranks(side) for side in sides])
    owners = np.repeat(np.arange(len(plain)), np.diff(offsets))
    return _sequence_ranks(offsets - first, entries[np.lexsort((entries, owners))], validity(plain))
