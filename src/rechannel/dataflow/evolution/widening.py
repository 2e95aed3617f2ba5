"""Which types hold every value of another: what state may be carried into without looking at it."""

from __future__ import annotations

import pyarrow as pa

_FLOAT_BITS = {16: 11, 32: 24, 64: 53}
"""Bits of the integers that a float of a width holds all of."""


def widens(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether every value of the old type is one of the new type, unchanged.

    >>> widens(pa.int32(), pa.float64()), widens(pa.int64(), pa.float64())
    (True, False)
    """
    types = pa.types
    if old == new or types.is_null(old):
        return True
    if types.is_integer(old):
        return _integer_widens(old, new)
    if types.is_floating(old):
        return bool(types.is_floating(new) and new.bit_width >= old.bit_width)
    if types.is_decimal(old):
        return bool(
            types.is_decimal(new)
            and new.scale >= old.scale
            and new.precision - new.scale >= old.precision - old.scale
        )
    if types.is_list(old) and types.is_list(new):
        loose = new.value_field.nullable or not old.value_field.nullable
        return loose and widens(old.value_type, new.value_type)
    return any(old in family and new in family for family in _FAMILIES)


def _integer_widens(old: pa.DataType, new: pa.DataType) -> bool:
    types = pa.types
    signed = types.is_signed_integer(old)
    bits = old.bit_width - 1 if signed else old.bit_width
    if types.is_integer(new):
        if not types.is_signed_integer(new):
            return bool(not signed and new.bit_width >= bits)
        return bool(new.bit_width - 1 >= bits)
    if types.is_floating(new):
        return bool(bits <= _FLOAT_BITS[new.bit_width])
    if types.is_decimal(new):
        return bool(len(str(2**bits)) <= new.precision - new.scale)
    return False


_FAMILIES = (
    {pa.string(), pa.large_string(), pa.string_view()},
    {pa.binary(), pa.large_binary(), pa.binary_view()},
)
