"""The one codec: records to plain JSON values, and back.

A record is a frozen dataclass, and its annotations are its format: a member per field, mappings as
objects, tuples as lists, enums by value. Exceptions are declared at the field or at the class:

    id: Annotated[str, ABSENT] = ""                left out while it has its default
    size: Annotated[int, written("bytes")]         another name in the file
    span: Annotated[int, written(encode=str, decode=int)]   another form
    @sparse                                        fields that have their defaults are left out
    @closed                                        unknown members are errors, not ignored
    @row                                           a list of the fields, in their order
    form(Intervals, encode=..., decode=...)        a class, or a union, with a form of its own

A missing member has the field's default, so a field with a default may be added without a new
format. Scalars are checked and never converted: a record that was read is written again byte for
byte.

cattrs compiles a function per class. msgspec would read faster, but cannot give a dataclass a form
of its own, leaves out only values identical with their default, and writes 1e-07 and non-ASCII
text differently from the files that exist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, TypeAlias, TypeVar, get_origin, get_type_hints

from cattrs import Converter
from cattrs.errors import ForbiddenExtraKeysError
from cattrs.fns import identity
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

T = TypeVar("T")

Mark: TypeAlias = Any
"""cattrs' name for an override of a field."""

Json: TypeAlias = Any
"""A value that JSON can hold: None, bool, int, float, str, list or dict with str keys."""

ABSENT: Mark = override(omit_if_default=True)
"""Marks a field, in `Annotated`, as left out while it has its default."""

_SCALARS: dict[type, tuple[type, ...]] = {
    bool: (bool,),
    int: (int,),
    float: (float, int),
    str: (str,),
}
"""Classes of the values that a field of a scalar type accepts."""

_CLOSED: set[type] = set()
_SPARSE: set[type] = set()
_ROWS: set[type] = set()


def encode(value: object, kind: Any = None) -> Json:
    """Return a record as plain JSON values. kind: the declared type; by default the class of the
    value.
    """
    return _CONVERTER.unstructure(value, unstructure_as=kind)


def decode(kind: type[T], data: Json) -> T:
    """Invert `encode`. Raises KeyError, TypeError or ValueError if the data is not such a record."""
    try:
        return _CONVERTER.structure(data, kind)
    except ForbiddenExtraKeysError as error:
        raise ValueError(str(error)) from error
    except AttributeError as error:  # a list where an object is expected
        raise TypeError(str(error)) from error


def closed(kind: type[T]) -> type[T]:
    """Raise on unknown members of a record, and of records derived from it. Decorates the class."""
    _CLOSED.add(kind)
    return kind


def sparse(kind: type[T]) -> type[T]:
    """Leave out all fields of a record, and of records derived from it, that have their defaults."""
    _SPARSE.add(kind)
    return kind


def row(kind: type[T]) -> type[T]:
    """Write a record as the list of its fields. Decorates the class."""
    _ROWS.add(kind)
    return kind


def written(
    name: str | None = None,
    *,
    encode: Callable[[Any], Json] | None = None,
    decode: Callable[[Any], Any] | None = None,
    absent: bool = False,
) -> Mark:
    """Return a mark for a field, in `Annotated`, whose written form differs from its annotation.

    name: of the member. encode, decode: its form. absent: whether it is left out while it has its
    default.
    """
    return override(
        rename=name,
        omit_if_default=absent or None,
        unstruct_hook=encode,
        struct_hook=None if decode is None else lambda data, _: decode(data),
    )


def form(kind: Any, *, encode: Callable[[Any], Json], decode: Callable[[Json], Any]) -> None:
    """Give a class, or a union, a form of its own."""
    _CONVERTER.register_unstructure_hook_func(_same(kind), encode)
    _CONVERTER.register_structure_hook_func(_same(kind), lambda data, _: decode(data))


def _scalar(kind: type, taken: tuple[type, ...]) -> Callable[[Any, Any], Any]:
    def check(value: Any, _: Any) -> Any:
        if type(value) in taken:
            return value
        if kind is str and isinstance(value, str):  # names may be of a class derived from it
            return str.__str__(value)
        msg = f"expected {kind.__name__}, found {value!r}"
        raise TypeError(msg)

    return check


def _converter() -> Converter:
    made = Converter(detailed_validation=False, unstruct_collection_overrides={tuple: list})
    for kind, taken in _SCALARS.items():
        made.register_structure_hook(kind, _scalar(kind, taken))
    made.register_unstructure_hook_func(_same(Any), identity)
    # Otherwise cattrs would treat one as a string.
    made.register_unstructure_hook(StrEnum, lambda value: value.value)
    made.register_structure_hook(StrEnum, lambda value, kind: kind(value))
    # As cattrs has them, but the hook of what is inside is looked up once.
    made.register_structure_hook_factory(_is_optional, lambda kind: _optional(kind, made))
    made.register_structure_hook_factory(_is_list, lambda kind: _list(kind, made))
    # Scalars in bulk: a call for each would be most of the time that a report takes.
    made.register_structure_hook_factory(_is_list_of_scalars, _list_of_scalars)
    made.register_structure_hook_factory(_is_mapping_of_scalars, _mapping_of_scalars)
    made.register_unstructure_hook_func(_is_mapping_of_scalars, dict)
    made.register_structure_hook_factory(is_dataclass, lambda kind: _reader(kind, made))
    made.register_unstructure_hook_factory(is_dataclass, lambda kind: _writer(kind, made))
    return made


def _is_optional(kind: Any) -> bool:
    return (
        get_origin(kind) is UnionType and len(kind.__args__) == 2 and kind.__args__[1] is NoneType
    )


def _optional(kind: Any, converter: Converter) -> Callable[[Json, Any], Any]:
    inner = kind.__args__[0]
    read = converter.get_structure_hook(inner)
    return lambda data, _: None if data is None else read(data, inner)


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is tuple and kind.__args__[-1] is Ellipsis


def _list(kind: Any, converter: Converter) -> Callable[[Json, Any], Any]:
    inner = kind.__args__[0]
    read = converter.get_structure_hook(inner)
    return lambda data, _: tuple([read(each, inner) for each in data])


def _is_list_of_scalars(kind: Any) -> bool:
    return _is_list(kind) and kind.__args__[0] in _SCALARS


def _list_of_scalars(kind: Any) -> Callable[[Json, Any], Any]:
    inner = kind.__args__[0]
    return lambda data, _: tuple(_checked(data, inner))


def _is_mapping_of_scalars(kind: Any) -> bool:
    if get_origin(kind) is not Mapping:
        return False
    of, to = kind.__args__
    return of is str and to in _SCALARS


def _mapping_of_scalars(kind: Any) -> Callable[[Json, Any], Any]:
    inner = kind.__args__[1]

    def read(data: Json, _: Any) -> dict[str, Any]:
        return dict(zip(_checked(data, str), _checked(data.values(), inner), strict=True))

    return read


def _checked(values: Collection[Any], kind: type) -> Iterable[Any]:
    """Return values that are scalars of a kind. Raises TypeError if one is not."""
    if set(map(type, values)).issubset(_SCALARS[kind]):
        return values
    check = _scalar(kind, _SCALARS[kind])
    return [check(value, kind) for value in values]


def _reader(kind: type, converter: Converter) -> Callable[[Json, Any], Any]:
    closed = _is(kind, _CLOSED)
    read: Callable[[Json, Any], Any] = make_dict_structure_fn(
        kind, converter, _cattrs_forbid_extra_keys=closed, **_marks(kind)
    )
    if kind not in _ROWS:
        return read
    names = [each.name for each in fields(kind)]
    return lambda data, _: read(dict(zip(names, data, strict=True)), kind)


def _writer(kind: type, converter: Converter) -> Callable[[Any], Json]:
    sparse = _is(kind, _SPARSE)
    write: Callable[[Any], dict[str, Json]] = make_dict_unstructure_fn(
        kind, converter, _cattrs_omit_if_default=sparse, **_marks(kind)
    )
    if kind in _ROWS:
        return lambda value: list(write(value).values())
    required = [each.default is each.default_factory is MISSING for each in fields(kind)]
    if not sparse or required == sorted(required, reverse=True):
        return write

    names = [each.name for each in fields(kind)]

    def ordered(value: Any) -> Json:
        # cattrs writes what may be absent last; members have the order of the fields.
        data = write(value)
        return {name: data[name] for name in names if name in data}

    return ordered


def _same(kind: Any) -> Callable[[Any], bool]:
    return lambda given: given == kind


def _is(kind: type, marked: set[type]) -> bool:
    return not marked.isdisjoint(kind.__mro__)


def _marks(kind: type) -> dict[str, Mark]:
    """Marks by field. By hand: cattrs does not see them in annotations that are strings."""
    return {
        name: mark
        for name, hint in get_type_hints(kind, include_extras=True).items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, type(ABSENT))
    }


_CONVERTER = _converter()
