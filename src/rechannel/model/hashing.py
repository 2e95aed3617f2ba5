"""The hash of a key: a stable 64-bit hash of its columns, and when two keys are equal.

The hash decides the bin of a key and is stored in every segment, so it may never change; the rules
are in `docs/formats/hash.md` and pinned by golden values. In short, after `canonical`:

- one column of 8 bytes, 16 bytes or a byte string: XXH64 with seed 42 (Spark's `xxhash64`);
- null: 42, the unchanged seed;
- several columns, and the fields of a struct: the hash of the first, then for every further column
  that is not null, XXH64 of its own hash, seeded with the result so far;
- a list: XXH64 of the sum (modulo 2^64) of XXH64(element's hash, seed = position), seeded with
  XXH64 of the length; a map: the same over the hashes of its (key, value) entries, without
  positions.

Unequal keys can share a hash. So rows that are grouped by hash have their keys compared as well,
unless `hash_is_key` says that this is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.model import xxh64
from rechannel.model.buffers import (
    IntArray,
    Mask,
    booleans,
    both,
    list_offsets,
    numbers,
    ragged,
    validity,
    word_pairs,
)
from rechannel.model.canonical import canonical
from rechannel.model.xxh64 import SEED, HashArray

__all__ = ["SEED", "HashArray", "canonical", "hash_columns", "hash_is_key", "keys_equal"]


def hash_columns(columns: Sequence[pa.Array]) -> HashArray:
    """Return the hash of every row of a key. Shape (rows,).

    Raises ValueError if there are no columns and DataflowError for types that cannot be a key.
    """
    if not columns:
        msg = "a key has at least one column"
        raise ValueError(msg)
    return _fold([_hash_column(array) for array in columns])


def hash_is_key(columns: Sequence[pa.Array]) -> bool:
    """Return whether equal hashes prove equal keys, so that keys need not be compared.

    True for one column without nulls whose canonical form is 8 bytes wide. Every step of XXH64
    over 8 bytes under a fixed seed can be undone: multiplying by an odd number (modulo 2^64),
    adding a constant, exclusive-or with a constant, rotating, and `x ^ (x >> s)`. A chain of
    bijections is a bijection, so unequal words have unequal hashes. For floats, the word is the
    bits of the canonical value: GROUP BY treats two of them as equal exactly if these bits are
    equal, because the only unequal bit patterns that compare equal (0.0 and -0.0, the many NaN)
    were made one.
    """
    if len(columns) != 1 or columns[0].null_count:
        return False
    array = columns[0]
    if pa.types.is_dictionary(array.type) and array.dictionary.null_count:
        return False
    kind = canonical(array.slice(0, 0)).type
    return bool(pa.types.is_int64(kind) or pa.types.is_float64(kind))


def keys_equal(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> Mask:
    """Return row by row whether two keys are equal, as in SQL's GROUP BY. Shape (rows,).

    Null equals null, NaN equals NaN, 0.0 equals -0.0, and maps are equal whatever their order.
    Raises ValueError for no columns, for different numbers of columns, or for types that cannot be
    compared.
    """
    if not left:
        msg = "a key has at least one column"
        raise ValueError(msg)
    equal: Mask | None = None
    for one, other in zip(left, right, strict=True):
        same = _columns_equal(one, other)
        equal = same if equal is None else equal & same
    return equal if equal is not None else np.zeros(0, np.bool_)


def _fold(hashed: list[tuple[HashArray, Mask | None]]) -> HashArray:
    total, _ = hashed[0]
    for own, valid in hashed[1:]:
        folded = xxh64.of_words(own, total)
        total = folded if valid is None else np.where(valid, folded, total)
    return total


def _hash_column(array: pa.Array) -> tuple[HashArray, Mask | None]:
    """Return the hash of each value (42 under nulls), and which values are not null."""
    if pa.types.is_dictionary(array.type):
        return _hash_dictionary(array)
    plain = canonical(array)
    valid = validity(plain)
    hashes = _hash_canonical(plain)
    if valid is not None:
        hashes = np.where(valid, hashes, np.uint64(SEED))
    return hashes, valid


def _hash_dictionary(array: pa.Array) -> tuple[HashArray, Mask | None]:
    hashes, valid = _hash_column(array.dictionary)
    present = validity(array.indices)
    codes = numbers(array.indices).astype(np.int64)
    if present is not None:
        codes[~present] = len(hashes)  # codes under nulls are undefined: point past the last value
    hashes = np.append(hashes, np.uint64(SEED))[codes]
    if valid is not None:
        present = np.append(valid, False)[codes]
    return hashes, present


def _hash_canonical(plain: pa.Array) -> HashArray:
    """Return the hash of each value in canonical form; undefined under nulls."""
    kind = plain.type
    if pa.types.is_int64(kind) or pa.types.is_float64(kind):
        return xxh64.of_words(numbers(plain).view(np.uint64))
    if pa.types.is_large_binary(kind):
        return xxh64.of_bytes(plain)
    if pa.types.is_decimal(kind):
        low, high = word_pairs(plain)
        return xxh64.of_pairs(low, high.view(np.uint64))
    if pa.types.is_struct(kind) and kind.num_fields:
        return _fold([_hash_column(plain.field(i)) for i in range(kind.num_fields)])
    if pa.types.is_large_list(kind):
        return _hash_list(plain)
    if pa.types.is_map(kind):
        return _hash_map(plain)
    return np.full(len(plain), SEED, np.uint64)  # only nulls, or a struct without fields


def _hash_list(plain: pa.Array) -> HashArray:
    offsets = list_offsets(plain)
    elements, _ = _hash_column(plain.values)
    lengths = np.diff(offsets)
    positions = np.arange(len(elements)) - np.repeat(offsets[:-1], lengths)
    return _hash_bag(xxh64.of_words(elements, positions.view(np.uint64)), offsets)


def _hash_map(plain: pa.Array) -> HashArray:
    return _hash_bag(
        _fold([_hash_column(plain.keys), _hash_column(plain.items)]), list_offsets(plain)
    )


def _hash_bag(terms: HashArray, offsets: IntArray) -> HashArray:
    """Return the hash of the sum and the number of each row's terms. offsets: from 0 on, without
    gaps.
    """
    running = np.zeros(len(terms) + 1, np.uint64)
    np.cumsum(terms, out=running[1:])
    sums = running[offsets[1:]] - running[offsets[:-1]]
    return xxh64.of_words(sums, xxh64.of_words(np.diff(offsets).view(np.uint64)))


def _columns_equal(left: pa.Array, right: pa.Array) -> Mask:
    if len(left) != len(right):
        msg = f"keys of {len(left)} and {len(right)} rows cannot be compared row by row"
        raise ValueError(msg)
    if left.type == right.type and left.null_count == right.null_count == 0:
        kind = left.type
        if pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
            return _same(numbers(left), numbers(right))
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            return booleans(pc.equal(left, right))
    return _canonical_equal(canonical(left), canonical(right))


def _canonical_equal(left: pa.Array, right: pa.Array) -> Mask:
    there, here = validity(left), validity(right)
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        equal = np.zeros(len(left), np.bool_)
    else:
        equal = _values_equal(left, right, both(there, here))
    if there is None and here is None:
        return equal
    there = np.ones(len(left), np.bool_) if there is None else there
    here = np.ones(len(left), np.bool_) if here is None else here
    return np.where(there & here, equal, there == here)


def _values_equal(left: pa.Array, right: pa.Array, valid: Mask | None) -> Mask:
    """Return which canonical values of one type are equal; undefined if one of them is null."""
    kind = left.type
    if kind.id != right.type.id:
        msg = f"keys of type {kind} and {right.type} cannot be compared; give both the same type"
        raise ValueError(msg)
    if pa.types.is_int64(kind) or pa.types.is_float64(kind):
        return _same(numbers(left).view(np.int64), numbers(right).view(np.int64))
    if pa.types.is_large_binary(kind):
        return booleans(pc.equal(left, right))
    if pa.types.is_decimal(kind):
        (low, high), (other_low, other_high) = word_pairs(left), word_pairs(right)
        return _same(low, other_low) & _same(high, other_high)
    if pa.types.is_struct(kind):
        return _structs_equal(left, right)
    if pa.types.is_map(kind):
        return _ranges_equal(_sorted_entries(left), _sorted_entries(right), valid)
    return _ranges_equal(
        (list_offsets(left), [left.values]), (list_offsets(right), [right.values]), valid
    )


def _same(left: npt.NDArray[np.generic], right: npt.NDArray[np.generic]) -> Mask:
    out: Mask = np.equal(left, right)
    return out


def _structs_equal(left: pa.Array, right: pa.Array) -> Mask:
    if left.type.num_fields != right.type.num_fields:
        msg = f"keys of type {left.type} and {right.type} have different numbers of fields"
        raise ValueError(msg)
    equal = np.ones(len(left), np.bool_)
    for i in range(left.type.num_fields):
        equal &= _canonical_equal(left.field(i), right.field(i))
    return equal


def _ranges_equal(
    left: tuple[IntArray, list[pa.Array]],
    right: tuple[IntArray, list[pa.Array]],
    valid: Mask | None,
) -> Mask:
    """Return which rows have the same length and equal elements, position by position."""
    (offsets, children), (other_offsets, other_children) = left, right
    lengths = np.diff(offsets)
    equal = _same(lengths, np.diff(other_offsets))
    compare = equal & (lengths > 0)
    rows = np.flatnonzero(compare if valid is None else compare & valid)
    if not len(rows):
        return equal
    here = pa.array(ragged(offsets[rows], lengths[rows]))
    there = pa.array(ragged(other_offsets[rows], lengths[rows]))
    matches = np.ones(len(here), np.bool_)
    for child, other in zip(children, other_children, strict=True):
        matches &= _canonical_equal(child.take(here), other.take(there))
    starts = np.cumsum(lengths[rows]) - lengths[rows]
    equal[rows] = np.logical_and.reduceat(matches, starts)
    return equal


def _sorted_entries(plain: pa.Array) -> tuple[IntArray, list[pa.Array]]:
    """Return the entries of canonical maps, those of each map ordered by the hashes of their keys.

    Two keys of one map that share a hash keep their order.
    """
    offsets = list_offsets(plain)
    owners = np.repeat(np.arange(len(plain)), np.diff(offsets))
    hashes, _ = _hash_column(plain.keys)
    order = pa.array(np.lexsort((hashes, owners)))
    return offsets, [plain.keys.take(order), plain.items.take(order)]
