"""What aggregates over one column share: the column's name, and its values in a plain layout."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.digits import FloatArray
from rechannel.kernels.columnar.groups import Groups
from rechannel.model.buffers import Mask, numbers, validity, word_pairs

_EXACT_INTEGER = 1 << 53
_EXACT_POWER = 22
"""Integers up to 2^53 and powers of ten up to 10^22 are doubles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneColumn:
    """An aggregate of one input column."""

    column: str

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the column that is aggregated."""
        return (self.column,)

    @property
    def ordered(self) -> bool:
        """Most aggregates do not depend on the order of rows."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedColumn(OneColumn):
    """An aggregate of one input column whose result depends on the order of rows.

    ignore_nulls: whether rows with a null in the column are skipped.
    """

    ignore_nulls: bool = False

    @property
    def ordered(self) -> bool:
        """It depends on the order of rows."""
        return True


def one_null(inputs: list[pa.Field]) -> tuple[Columns, Groups]:
    """A group of one row that is null: what aggregates that skip nulls take for no rows at all."""
    nothing = pa.nulls(1, plain_type(inputs[0].type))
    return [nothing], Groups(np.zeros(1, dtype=np.int64), 1)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Type of the values once `plain` has undone dictionaries, views and extensions."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    return kind


def plain(array: pa.Array) -> pa.Array:
    """The same values without dictionary, view or extension type."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain(array.storage)
    if pa.types.is_dictionary(kind):
        return plain(array.dictionary).take(array.indices)
    wanted = plain_type(kind)
    return array if wanted == kind else array.cast(wanted)


def doubles(array: pa.Array) -> FloatArray:
    """Nearest doubles of a number column's values; undefined under nulls."""
    if pa.types.is_decimal(array.type):
        return _decimal_doubles(array)
    return numbers(array).astype(np.float64, copy=False)


def _decimal_doubles(array: pa.Array) -> FloatArray:
    """Nearest doubles of decimals. Arrow's own cast is off by a unit in the last place at times."""
    low, high = word_pairs(array)
    unscaled, scale = low.view(np.int64), array.type.scale
    narrow = bool((high == unscaled >> 63).all())
    if narrow and scale == 0:
        return unscaled.astype(np.float64)
    short = (unscaled <= _EXACT_INTEGER) & (unscaled >= -_EXACT_INTEGER)
    if narrow and 0 < scale <= _EXACT_POWER and short.all():
        quotients: FloatArray = unscaled / 10.0**scale  # both exact: rounded once
        return quotients
    return doubles(array.cast(pa.string()).cast(pa.float64()))


def is_number(kind: pa.DataType) -> bool:
    """Whether `sum`, `mean` and the like can take a type."""
    return bool(is_summable_integer(kind) or pa.types.is_floating(kind) or is_decimal(kind))


def is_summable_integer(kind: pa.DataType) -> bool:
    """Whether every value of an integer type fits int64."""
    return bool(pa.types.is_integer(kind) and not pa.types.is_uint64(kind))


def is_decimal(kind: pa.DataType) -> bool:
    """Whether a type is a decimal of at most 38 digits in Arrow's 128-bit layout."""
    return bool(pa.types.is_decimal128(kind))


NUMBERS = "integers of up to 64 bits (signed), floats and decimals of up to 38 digits"
"""The types that `is_number` accepts, in words."""


def kept(old: pa.Array, found: Mask) -> Mask | None:
    """Which old state rows exist and are not null; None for all."""
    valid = validity(old)
    if valid is not None:
        return valid & found
    return None if found.all() else found


def either(left: Mask | None, right: Mask | None) -> Mask | None:
    """Where at least one mask holds; None stands for everywhere."""
    return None if left is None or right is None else left | right


def choose(take_left: Mask, left: pa.Array, right: pa.Array) -> pa.Array:
    """Row by row the left value where the mask holds, else the right one. Any type."""
    return pc.if_else(pa.array(take_left), left, right)
