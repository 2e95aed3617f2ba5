"""The canonical form of a key column: values that SQL's GROUP BY holds equal become identical.

    boolean, integers, date          int64 (dates in days; the bits of a uint64)
    timestamp, duration, time        int64 microseconds; nanoseconds stay nanoseconds
    float16, float32, float64        float64 with -0.0 as 0.0 and one NaN
    decimal(p <= 18, s)              int64, unscaled
    decimal(p <= 38, s)              decimal128
    decimal(p > 38, s)               large_binary: the 32 bytes of the unscaled value, little-endian
    string, binary and their kin     large_binary
    lists of any layout              large_list of canonical elements
    struct                           struct of canonical fields
    map                              map of canonical keys and values, in their original order
    dictionary, run-end, extension   the canonical form of their values

The order of a map's entries carries no meaning; hashing and comparing treat them as a set.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.errors import DataflowError
from rechannel.model.buffers import (
    IntArray,
    bitmap,
    column,
    list_offsets,
    numbers,
    ragged,
    validity,
    word_pairs,
)

_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}


def canonical(array: pa.Array) -> pa.Array:
    """Return the canonical form of a key column, as the table above says. Same length, same nulls.

    Raises DataflowError for types that cannot be a key (unions, calendar intervals).
    """
    for matches, convert in _FORMS:
        if matches(array.type):
            return convert(array)
    msg = (
        f"a column of type {array.type} cannot be a key; "
        "cast it to a string, binary, number, struct, list or map first"
    )
    raise DataflowError(msg)


def one_zero(array: pa.Array) -> pa.Array:
    """Return a column of the same type whose floats, at any depth, have one zero (0.0) and one
    NaN.
    """
    kind = array.type
    if not has_floats(kind):
        return array
    if pa.types.is_floating(kind):
        return canonical(array).cast(kind)
    parts = [bitmap(validity(array))]
    if pa.types.is_struct(kind):
        children = [one_zero(array.field(i)) for i in range(kind.num_fields)]
    elif pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        children = [one_zero(array.values.slice(array.offset * size, len(array) * size))]
    else:
        offsets = list_offsets(array)
        first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        width = np.int32 if pa.types.is_list(kind) else np.int64
        parts.append(pa.py_buffer((offsets - first).astype(width)))
        children = [one_zero(array.values.slice(first, count))]
    return pa.Array.from_buffers(kind, len(array), parts, children=children)


@lru_cache(maxsize=1024)  # called for every batch
def has_floats(kind: pa.DataType) -> bool:
    """Return whether values of a type are, or contain, floats. Types that rows or keys cannot have
    are not searched.
    """
    if pa.types.is_floating(kind):
        return True
    if pa.types.is_struct(kind):
        return any(has_floats(field.type) for field in kind.fields)
    return bool(
        (_is_list(kind) or pa.types.is_fixed_size_list(kind)) and has_floats(kind.value_type)
    )


def _same(array: pa.Array) -> pa.Array:
    return array


def _integer(array: pa.Array) -> pa.Array:
    if pa.types.is_int64(array.type):
        return array
    if pa.types.is_uint64(array.type):
        return array.view(pa.int64())
    return array.cast(pa.int64())


def _date(array: pa.Array) -> pa.Array:
    return array.cast(pa.date32()).view(pa.int32()).cast(pa.int64())


def _instant(array: pa.Array) -> pa.Array:
    plain = array.view(pa.int64() if array.type.bit_width == 64 else pa.int32()).cast(pa.int64())
    factor = _MICROSECONDS[array.type.unit]
    return plain if factor == 1 else pc.multiply_checked(plain, factor)


def _float(array: pa.Array) -> pa.Array:
    wide = array if pa.types.is_float64(array.type) else array.cast(pa.float64())
    values = numbers(wide).astype(np.float64, copy=False) + 0.0  # -0.0 + 0.0 is 0.0
    undefined = np.isnan(values)
    if undefined.any():
        values[undefined] = np.nan
    return column(pa.float64(), values, validity(wide))


def _decimal(array: pa.Array) -> pa.Array:
    kind = array.type
    if kind.precision > 38:
        raw = pa.Array.from_buffers(
            pa.binary(32), len(array), array.buffers(), array.null_count, array.offset
        )
        return raw.cast(pa.large_binary())
    if not pa.types.is_decimal128(kind):
        array = array.cast(pa.decimal128(kind.precision, kind.scale))
    if kind.precision > 18:
        return array
    return column(pa.int64(), word_pairs(array)[0].view(np.int64), validity(array))


def _bytes(array: pa.Array) -> pa.Array:
    return array.cast(pa.large_binary())


def _list(array: pa.Array) -> pa.Array:
    offsets = list_offsets(array)
    values = array.values.slice(offsets[0], offsets[-1] - offsets[0])
    return _large_list(array, offsets - offsets[0], canonical(values))


def _fixed_size_list(array: pa.Array) -> pa.Array:
    size = array.type.list_size
    values = array.values.slice(array.offset * size, len(array) * size)
    offsets = np.arange(len(array) + 1, dtype=np.int64) * size
    return _large_list(array, offsets, canonical(values))


def _list_view(array: pa.Array) -> pa.Array:
    # Not with Arrow's own cast, which makes an invalid list if the views overlap.
    starts, sizes = (numbers(part).astype(np.int64) for part in (array.offsets, array.sizes))
    valid = validity(array)
    if valid is not None:
        sizes = np.where(valid, sizes, 0)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return _large_list(
        array, offsets, canonical(array.values).take(pa.array(ragged(starts, sizes)))
    )


def _large_list(array: pa.Array, offsets: IntArray, values: pa.Array) -> pa.Array:
    parts = [bitmap(validity(array)), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(pa.large_list(values.type), len(array), parts, children=[values])


def _struct(array: pa.Array) -> pa.Array:
    fields = [canonical(array.field(i)) for i in range(array.type.num_fields)]
    kind = pa.struct([pa.field(str(i), field.type) for i, field in enumerate(fields)])
    return pa.Array.from_buffers(kind, len(array), [bitmap(validity(array))], children=fields)


def _map(array: pa.Array) -> pa.Array:
    offsets = list_offsets(array)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys = canonical(array.keys.slice(first, count))
    items = canonical(array.items.slice(first, count))
    kind = pa.map_(keys.type, items.type)
    entries = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
    parts = [bitmap(validity(array)), pa.py_buffer((offsets - first).astype(np.int32))]
    return pa.Array.from_buffers(kind, len(array), parts, children=[entries])


def _dictionary(array: pa.Array) -> pa.Array:
    return canonical(array.dictionary).take(array.indices)


def _run_ends(array: pa.Array) -> pa.Array:
    return canonical(pc.run_end_decode(array))


def _extension(array: pa.Array) -> pa.Array:
    return canonical(array.storage)


def _is_extension(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType)


def _is_instant(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_timestamp(kind) or types.is_duration(kind) or types.is_time(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
        pa.types.is_fixed_size_binary,
    )
    return any(test(kind) for test in tests)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_list_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


_FORMS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
    (_is_extension, _extension),
    (pa.types.is_null, _same),
    (_is_whole, _integer),
    (pa.types.is_date, _date),
    (_is_instant, _instant),
    (pa.types.is_floating, _float),
    (pa.types.is_decimal, _decimal),
    (_is_bytes, _bytes),
    (_is_list, _list),
    (pa.types.is_fixed_size_list, _fixed_size_list),
    (_is_list_view, _list_view),
    (pa.types.is_struct, _struct),
    (pa.types.is_map, _map),
    (pa.types.is_dictionary, _dictionary),
    (pa.types.is_run_end_encoded, _run_ends),
)
