"""Count of distinct values by a sketch of fixed size: the k smallest hashes.

Hashes of distinct values are spread evenly over [0, 2^64). If the k-th smallest of them lies at the
fraction u of that space, about (k - 1) / u distinct values were seen; that estimate is unbiased
with a relative standard error below 1 / sqrt(k - 2) (Bar-Yossef et al., RANDOM 2002; Beyer et al.,
SIGMOD 2007, section 3). Up to k - 1 distinct values the sketch holds them all and the count is
exact, but for values that share a 64-bit hash. The k smallest of a union are among the k smallest
of its parts, so the state does not depend on order or on how rows were split.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.reductions import total
from rechannel.model.buffers import (
    IntArray,
    Mask,
    booleans,
    column,
    list_offsets,
    numbers,
    validity,
)
from rechannel.model.canonical import canonical
from rechannel.model.ddl import type_name
from rechannel.model.hashing import HashArray, hash_columns
from rechannel.operators.aggregate.functions.inputs import OneColumn, one_null, plain, plain_type
from rechannel.operators.aggregate.functions.lists import Ranges, list_column, side_by_side

_KIND = pa.list_(pa.field("item", pa.uint64(), nullable=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class CountDistinct(OneColumn):
    """Number of distinct values of a column, nulls not counted; estimated beyond k - 1 of them.

    k: hashes kept per key (8 bytes each). The relative standard error is 1 / sqrt(k - 2): 3.1 % for
    1024.
    """

    k: int = 1024

    def __post_init__(self) -> None:
        """Check that the error is defined."""
        if self.k < 3:
            msg = f"count_distinct({self.column!r}) keeps at least 3 hashes, got k={self.k}"
            raise ValueError(msg)

    def state_fields(self, inputs: list[pa.Field]) -> list[pa.Field]:
        """The smallest hashes, ascending. Takes every type that can be a key."""
        hash_columns([pa.array([], inputs[0].type)])  # raises for a type that has no hash
        return [pa.field("hashes", _KIND, nullable=False)]

    def output_field(self, inputs: list[pa.Field]) -> pa.Field:
        """An int64, never null."""
        return pa.field("count_distinct", pa.int64(), nullable=False)

    def of_type(self, inputs: list[pa.Field]) -> str:
        """Return the type whose hashes they are: integers hash alike, whatever their width, and so do floats."""
        kind = plain_type(inputs[0].type)
        if pa.types.is_integer(kind):
            return type_name(pa.int64())
        return type_name(pa.float64() if pa.types.is_floating(kind) else kind)

    def empty(self, inputs: list[pa.Field]) -> Columns:
        """Return a sketch without hashes."""
        return self.partial(*one_null(inputs))

    def partial(self, values: Columns, groups: Groups) -> Columns:
        """Sketches of raw rows."""
        array = plain(values[0])
        hashes, lengths = _hashed(array), groups.sizes
        valid = validity(array)
        if valid is not None:
            hashes, lengths = hashes[valid], total(valid, groups)
        return [self._smallest(hashes, lengths)]

    def merge(self, states: Columns, groups: Groups) -> Columns:
        """Sketches of all hashes of each group."""
        ranges = Ranges.of_lists(states[0]).joined(groups)
        return [self._smallest(_hashes(ranges.take(states[0].values)), ranges.lengths)]

    def merge_pair(self, old: Columns, new: Columns, found: Mask) -> Columns:
        """Sketches of old and new hashes."""
        lengths, flat = side_by_side(old[0], new[0], found)
        return [self._smallest(_hashes(flat), lengths)]

    def final(self, states: Columns, inputs: list[pa.Field]) -> pa.Array:
        """Size of a sketch that is not full, else the estimate, rounded."""
        ranges = Ranges.of_lists(states[0])
        counts = ranges.lengths.copy()
        full = np.flatnonzero(counts == self.k)
        if len(full):
            largest = _hashes(states[0].values)[(ranges.starts + ranges.lengths - 1)[full]]
            fractions = (largest.astype(np.float64) + 1.0) / 2.0**64
            counts[full] = np.rint((self.k - 1) / fractions).astype(np.int64)
        return column(pa.int64(), counts)

    def _smallest(self, hashes: HashArray, lengths: IntArray) -> pa.Array:
        """Ascending lists of the k smallest distinct hashes of each range of `hashes`."""
        owners = np.repeat(np.arange(len(lengths)), lengths)
        hashes = _sort_within(hashes, owners, len(lengths))
        fresh = np.ones(len(hashes), np.bool_)
        fresh[1:] = (hashes[1:] != hashes[:-1]) | (owners[1:] != owners[:-1])
        hashes, owners = hashes[fresh], owners[fresh]
        sizes = np.bincount(owners, minlength=len(lengths))
        ranks = np.arange(len(hashes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        kept = column(pa.uint64(), hashes[ranks < self.k])
        return list_column(_KIND, np.minimum(sizes, self.k), kept)


def _hashed(array: pa.Array) -> HashArray:
    """Hash values. A null leaves the hash of a key unchanged: here, which members of a struct are null counts too."""
    hashes, told = hash_columns([array]), list(_null_members(array))
    nulls = np.zeros(len(array), np.bool_)
    for each in told:
        nulls |= booleans(each if pa.types.is_boolean(each.type) else each.is_valid())
    some = np.flatnonzero(nulls)
    if len(some):
        hashes = hashes.copy()
        places = pa.array(some)
        given = [pa.array(hashes[some].view(np.int64)), *(each.take(places) for each in told)]
        hashes[some] = hash_columns(given)
    return hashes


def _null_members(array: pa.Array) -> Iterator[pa.Array]:
    """Yield where each member of a struct is null, at every level of structs.

    Of all structs in a list or a map, one column tells it: a hash; null where no member is null.
    """
    if pa.types.is_struct(array.type):
        for member in array.flatten():
            yield member.is_null()
            yield from _null_members(member)
    elif pa.types.is_nested(array.type) and _has_structs(array.type):
        found, without = (hash_columns([_nulls_in(array, told)]) for told in (True, False))
        yield pa.array(found.view(np.int64), mask=found == without)


def _has_structs(kind: pa.DataType) -> bool:
    fields = (kind.field(number) for number in range(kind.num_fields))
    return pa.types.is_struct(kind) or any(_has_structs(field.type) for field in fields)


def _nulls_in(array: pa.Array, told: bool) -> pa.Array:
    """Return where a column, and whatever is in it, is null: of its shape, and without nulls.

    told: else it is as if nothing were null.
    """
    form = canonical(array)
    null, kind = pa.array(booleans(form.is_null()) & told), form.type
    if pa.types.is_struct(kind):
        parts = [null, *(_nulls_in(member, told) for member in form.flatten())]
        return pa.StructArray.from_arrays(parts, names=[str(n) for n in range(len(parts))])
    if pa.types.is_large_list(kind):
        within = pa.LargeListArray.from_arrays(list_offsets(form), _nulls_in(form.values, told))
        return pa.StructArray.from_arrays([null, within], names=["null", "items"])
    if pa.types.is_map(kind):
        both = [_nulls_in(each, told) for each in (form.keys, form.items)]
        items = pa.StructArray.from_arrays(both, names=["key", "value"])
        offsets = list_offsets(form).astype(np.int32)
        within = pa.MapArray.from_arrays(offsets, form.keys, items)
        return pa.StructArray.from_arrays([null, within], names=["null", "items"])
    return null


def _hashes(flat: pa.Array) -> HashArray:
    return numbers(flat).astype(np.uint64, copy=False)


def _sort_within(hashes: HashArray, owners: IntArray, groups: int) -> HashArray:
    """Hashes sorted within each group (`owners` ascends).

    One sort over a word made of the group's number and the hash's upper bits is many times faster
    than a sort by two columns; where cutting the hash made a tie that matters, the slow way is
    taken.
    """
    bits = max(groups - 1, 0).bit_length()
    if bits == 0:
        return np.sort(hashes)
    words = owners.astype(np.uint64) << np.uint64(64 - bits) | hashes >> np.uint64(bits)
    order = np.argsort(words)
    words, ordered = words[order], hashes[order]
    if ((words[1:] == words[:-1]) & (ordered[1:] < ordered[:-1])).any():
        return hashes[np.lexsort((hashes, owners))]
    return ordered
