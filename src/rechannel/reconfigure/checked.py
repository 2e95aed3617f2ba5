"""Values whose fields are checked when they are made: changes and strategies. Pure.

The type of a field says what it may hold, `Annotated[int, Meta(ge=1, description="...")]`, and msgspec checks it. The
description of a field is written once, there: the help of the command line, the OpenAPI document and the tables of the
documentation take it from the type.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Generic, Self, TypeAlias, TypeVar, get_type_hints

import msgspec
from msgspec import Meta

from rechannel.errors import RefusedError

FINITE = sys.float_info.max
"""Upper bound of real numbers: JSON cannot hold an infinite one."""

MOST_COMPLAINTS = 20
"""Wrong fields that a message names one by one; above that it gives their number."""

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
PositiveInt: TypeAlias = Annotated[int, Meta(ge=1)]
NonNegativeInt: TypeAlias = Annotated[int, Meta(ge=0)]
PositiveFloat: TypeAlias = Annotated[float, Meta(gt=0, le=FINITE)]


class Checked:
    """Base of frozen dataclasses whose fields are checked and converted by the constructor."""

    __slots__ = ()

    kind: ClassVar[str]
    """Name in JSON, in the journal and in Python."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __post_init__(self) -> None:
        """Check every field. Raises RefusedError naming the wrong ones."""
        kind: Any = type(self)
        wrong: list[str] = []
        for name, type_ in types_of(kind).items():
            try:
                object.__setattr__(self, name, _converted(getattr(self, name), type_))
            except msgspec.ValidationError as error:
                wrong.append(_complaint(name, getattr(self, name), error))
        if wrong:
            raise RefusedError(f"{self.kind}: {_together(wrong)}")

    def __str__(self) -> str:
        """As it is written in Python, without fields that are None."""
        given = {name: value for name, value in _plain(self).items() if value is not None}
        return f"{self.kind}({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values: the fields that all kinds share, the kind, its own fields. Files keep this order."""
        plain = _plain(self)
        shared = {name: plain.pop(name) for name in _shared(type(self))}
        return {**shared, "kind": self.kind, **plain}

    @classmethod
    def from_fields(cls, given: Mapping[str, Any]) -> Self:
        """The value with these fields, as JSON has them. Raises RefusedError naming the wrong ones."""
        known = {one.name: one for one in fields(cls)}
        wrong = [f"{name}: there is no such field" for name in given if name not in known]
        wrong += [
            f"{name}: is missing" for name in known if name not in given and _needed(known[name])
        ]
        if wrong:
            raise RefusedError(f"{cls.kind}: {_together(wrong)}")
        return cls(**given)


V = TypeVar("V", bound=Checked)
K = TypeVar("K", bound=Checked)


class Kinds(Generic[V]):
    """The registered kinds of one sort of value, by name, in the order of registration."""

    def __init__(self, what: str) -> None:
        """Register nothing yet. what: the word for such a value in messages."""
        self.what = what
        self._kinds: dict[str, type[V]] = {}

    def register(self, kind: type[K]) -> type[K]:
        """Add a kind; a class decorator."""
        if kind.kind in self._kinds:
            msg = f"{self.what} {kind.kind!r} is registered already"
            raise ValueError(msg)
        self._kinds[kind.kind] = kind  # type: ignore[assignment]
        return kind

    def unregister(self, name: str) -> None:
        """Remove a kind, as tests do with their own."""
        del self._kinds[name]

    def __iter__(self) -> Iterator[type[V]]:
        """All registered kinds."""
        return iter(self._kinds.values())

    def read(self, data: Any) -> V:
        """The value in JSON. Raises RefusedError naming what is wrong."""
        return self._kind_of(data).from_fields({k: v for k, v in data.items() if k != "kind"})

    def _kind_of(self, data: Any) -> type[V]:
        if not isinstance(data, Mapping):
            msg = f"expected a {self.what} as an object with a kind, got {type(data).__name__}"
            raise RefusedError(msg)
        name = data.get("kind")
        found = self._kinds.get(name) if isinstance(name, str) else None
        if found is None:
            msg = f"there is no {self.what} of kind {str(name)[:100]!r}; there are {sorted(self._kinds)}"
            raise RefusedError(msg)
        return found


@cache
def types_of(kind: type[Any]) -> dict[str, Any]:
    """Types of a value's fields by name, annotations included."""
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: hints[one.name] for one in fields(kind)}


def _shared(kind: type[Any]) -> list[str]:
    """Names of the fields that a value has from its base class."""
    base = kind.__mro__[1]
    return [one.name for one in fields(base)] if is_dataclass(base) else []


def _needed(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _converted(value: Any, type_: Any) -> Any:
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError:
        plain = _without_numpy(value)
        if plain is value:
            raise
        return msgspec.convert(plain, type_)


def _without_numpy(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, list | tuple | range):
        return [_without_numpy(one) for one in value]
    return value


def _text(value: object) -> str:
    """Return a string of a derived class, such as a derived name, as a plain one. Raises TypeError for others."""
    if isinstance(value, str):
        return str.__str__(value)
    msg = f"{type(value).__name__} cannot be written as JSON"
    raise TypeError(msg)


def _plain(value: Checked) -> dict[str, Any]:
    """The fields as plain JSON values."""
    plain = {
        one.name: msgspec.to_builtins(getattr(value, one.name), enc_hook=_text)
        for one in fields(value)
    }
    return {name: list(one) if isinstance(one, tuple) else one for name, one in plain.items()}


def _complaint(name: str, value: Any, error: msgspec.ValidationError) -> str:
    """`bins[1]: expected int >= 0, got -1`."""
    words, _, where = str(error).replace("`", "").partition(" - at $")
    if words.startswith("Invalid enum value"):
        return f"{name}{where}: there is no {words.removeprefix('Invalid enum value ')} here"
    inner = re.fullmatch(r"\[(\d+)\]", where)
    got = "" if ", got " in words else f", got {_short(value[int(inner[1])] if inner else value)}"
    return f"{name}{where}: {words[:1].lower()}{words[1:]}{got}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _together(wrong: list[str]) -> str:
    if len(wrong) > MOST_COMPLAINTS:
        return f"{len(wrong)} fields are wrong"
    return "; ".join(wrong)
