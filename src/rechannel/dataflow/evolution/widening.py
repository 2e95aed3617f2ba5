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
        loose = _is_looser(old.value_field, new.value_field)
        return loose and widens(old.value_type, new.value_type)
    if types.is_struct(old) and types.is_struct(new):
        return _struct_widens(old, new)
    return any(old in family and new in family for family in _FAMILIES)


def _struct_widens(old: pa.StructType, new: pa.StructType) -> bool:
    """Whether no field is lost or narrower; a new field is null in every old value."""
    before = {field.name: field for field in old}
    if len(before) < old.num_fields or not before.keys() <= {field.name for field in new}:
        return False
    for field in new:
        was = before.get(field.name)
        if was is None and not field.nullable:
            return False
        if was is not None and not (_is_looser(was, field) and widens(was.type, field.type)):
            return False
    return True


def _is_looser(old: pa.Field, new: pa.Field) -> bool:
    return bool(new.nullable or not old.nullable)


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
