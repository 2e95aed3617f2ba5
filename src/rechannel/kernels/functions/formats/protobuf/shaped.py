"""Columns as ptars takes them: it leaves out, without a word, what has another type than the field. So all is converted
here, and what does not fit is an error.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rechannel.errors import DataflowError
from rechannel.kernels.functions.formats.protobuf.types import (
    GOOGLE,
    MESSAGE,
    SCALARS,
    TIMESTAMP,
    columns_of,
)
from rechannel.model.ddl import type_name

ENUM, UINT = 14, {4: pa.uint64(), 6: pa.uint64(), 7: pa.uint32(), 13: pa.uint32()}
NUMBER = r"^-?[0-9]{1,10}$"


def check(descriptor: Any, columns: pa.Schema) -> None:
    """Raise DataflowError unless columns are fields of a message, with types that these take."""
    fields = columns_of(descriptor)
    for column in columns:
        if column.name not in fields.names:
            raise DataflowError(
                f"Protocol Buffers: column {column.name!r} is no field of {descriptor.full_name}: leave it out with"
                " columns=, or add the field"
            )
        wanted = fields.field(column.name).type
        if not fits(column.type, wanted):
            raise DataflowError(
                f"Protocol Buffers: column {column.name!r} is {type_name(column.type)}, and its field takes"
                f" {type_name(wanted)}: convert it before, or change the message"
            )


def fits(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a column of a type can be written to a field, but for values out of range."""
    types = pa.types
    if types.is_integer(kind):
        return bool(types.is_integer(wanted) or types.is_decimal(wanted))
    if types.is_floating(kind):
        return bool(types.is_floating(wanted) and kind.bit_width <= wanted.bit_width)
    if types.is_decimal(kind):
        return bool(types.is_decimal(wanted) and kind.scale == 0)
    if types.is_timestamp(kind):
        return types.is_timestamp(wanted) and kind.tz is not None
    if types.is_struct(kind):
        return types.is_struct(wanted) and all(
            wanted.get_field_index(each.name) >= 0 and fits(each.type, wanted.field(each.name).type)
            for each in kind
        )
    if types.is_list(kind):
        return types.is_list(wanted) and fits(kind.value_type, wanted.value_type)
    if types.is_map(kind):
        keys = types.is_map(wanted) and fits(kind.key_type, wanted.key_type)
        return keys and fits(kind.item_type, wanted.item_type)
    return bool(_plain(kind) == _plain(wanted))


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def shaped(rows: pa.RecordBatch, descriptor: Any) -> pa.RecordBatch:
    """Return columns as ptars takes them. Raises ValueError if a value does not fit."""
    fields = descriptor.fields_by_name
    _check_choices(rows, descriptor)
    try:
        columns = [
            _array(column, fields[name], name)
            for name, column in zip(rows.schema.names, rows.columns, strict=True)
        ]
    except pa.ArrowInvalid as error:
        raise ValueError(str(error)) from None
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def _check_choices(rows: pa.RecordBatch, descriptor: Any) -> None:
    for choice in descriptor.oneofs:
        there = [each.name for each in choice.fields if each.name in rows.schema.names]
        if len(there) > 1:
            counts = sum(
                rows.column(name).is_valid().to_numpy(zero_copy_only=False).astype(int)
                for name in there
            )
            if (counts > 1).any():
                raise ValueError(
                    f"more than one of {', '.join(there)} is there, of which one may be"
                )


def _array(column: pa.Array, field: Any, path: str) -> pa.Array:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        key, value = (message.fields_by_name[name] for name in ("key", "value"))
        return _map(column, key, value, path)
    if not field.is_repeated:
        return _single(column, field, path)
    items = column.flatten()
    _check_whole(items, path)
    return pa.ListArray.from_arrays(_offsets(column), _single(items, field, path))


def _map(column: pa.Array, key: Any, value: Any, path: str) -> pa.Array:
    column = pa.concat_arrays([column])
    start, stop = column.offsets[0].as_py(), column.offsets[-1].as_py()
    items = column.items[start:stop]
    _check_whole(items, path)
    offsets = pc.subtract(column.offsets, pa.scalar(start, pa.int32()))
    return pa.MapArray.from_arrays(
        offsets, _single(column.keys[start:stop], key, path), _single(items, value, path)
    )


def _check_whole(items: pa.Array, path: str) -> None:
    if items.null_count:
        raise ValueError(f"field {path} has a null among its values, which messages cannot have")


def _offsets(column: pa.Array) -> pa.Array:
    sizes = pc.fill_null(pc.list_value_length(column), 0)
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(sizes)])


def _single(column: pa.Array, field: Any, path: str) -> pa.Array:
    if field.type == ENUM:
        return _numbers(column, field.enum_type, path)
    if field.type != MESSAGE:
        return column.cast(UINT.get(field.type, SCALARS[field.type]))
    message = field.message_type
    if message.full_name == TIMESTAMP:
        return column.cast(pa.timestamp("us", "UTC"), safe=False)
    if message.full_name.startswith(GOOGLE):  # what wraps a scalar
        wrapped = message.fields[0].type
        return column.cast(UINT.get(wrapped, SCALARS[wrapped]))
    names = [each.name for each in column.type]
    rows = pa.RecordBatch.from_arrays(column.flatten(), names=names)
    inner = shaped(rows, message)
    return pa.StructArray.from_arrays(inner.columns, names=names, mask=column.is_null())


def _numbers(column: pa.Array, enum: Any, path: str) -> pa.Array:
    """Return the numbers of an enum's names; texts of other numbers stand for these."""
    column = column.cast(pa.string())
    names = pa.array([each.name for each in enum.values], pa.string())
    numbers = pa.array([each.number for each in enum.values], pa.int32())
    found = numbers.take(pc.index_in(column, value_set=names))
    others = pc.and_(found.is_null(), column.is_valid())
    if not pc.any(others).as_py():
        return found
    texts = column.filter(others)
    if not pc.all(pc.match_substring_regex(texts, NUMBER)).as_py():
        raise ValueError(f"field {path}: a text is no value of {enum.full_name}")
    return pc.replace_with_mask(found, others, texts.cast(pa.int64()).cast(pa.int32()))
