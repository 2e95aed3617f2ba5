"""The fields of a change as parameters of its sub-command."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typer
from msgspec import Meta

from rechannel.reconfigure.changes.change import Change, Cli
from rechannel.reconfigure.checked import types_of


@dataclass(frozen=True, kw_only=True)
class Written:
    """How a field is written on the command line."""

    name: str
    """The field."""

    type: type
    """What typer makes of the text."""

    has_default: bool
    """Whether the change has a default for it."""

    optional: bool
    """Whether the command line may leave it out."""

    default: Any
    """What the help shows as the default; None = nothing."""

    words: str
    """What the field means."""

    help: str
    """What to write."""

    cli: Cli
    """What the field says of itself."""

    @property
    def key(self) -> str:
        """Name of the parameter of the command's function, apart from those of the command's own options."""
        return f"change_{self.name}"

    @property
    def flag(self) -> str:
        """The option, where it is not positional."""
        return self.cli.flag or f"--{self.name.replace('_', '-')}"

    def parameter(self) -> inspect.Parameter:
        """The parameter of the command's function."""
        cli = self.cli
        if cli.argument:
            info = typer.Argument(metavar=cli.metavar or self.name.upper(), help=self.help)
        else:
            info = typer.Option(self.flag, metavar=cli.metavar, help=self.help)
        type_: Any = self.type | None if self.optional and self.default is None else self.type
        return inspect.Parameter(
            self.key,
            inspect.Parameter.KEYWORD_ONLY,
            default=self.default if self.optional else inspect.Parameter.empty,
            annotation=Annotated[type_, info],
        )

    def has(self, given: Any) -> bool:
        """Whether the change gets a value, or keeps its default."""
        return not self.has_default or given not in (None, [])

    def value(self, given: Any) -> Any:
        """The field's value."""
        return given if self.cli.read is None or given is None else self.cli.read(given)


def written(kind: type[Change]) -> list[Written]:
    """How the fields of a change are written."""
    types = types_of(kind)
    return [_written(field, types[field.name]) for field in fields(kind)]


def _written(field: Field[Any], type_: Any) -> Written:
    notes = list(_notes(type_))
    cli = next((note for note in notes if isinstance(note, Cli)), Cli())
    descriptions = (
        note.description for note in notes if isinstance(note, Meta) and note.description
    )
    has_default = field.default is not MISSING or field.default_factory is not MISSING
    return Written(
        name=field.name,
        type=_typed(type_, cli),
        has_default=has_default,
        optional=has_default or (_may_be_none(type_) and cli.read is None),
        default=field.default if isinstance(field.default, int | float | str) else None,
        words=(words := next(descriptions, "")),
        help=cli.help or words,
        cli=cli,
    )


def _typed(type_: Any, cli: Cli) -> Any:
    if cli.read is not None:
        return list[str] if cli.many else str
    bare = _bare(type_)
    return str if isinstance(bare, type) and issubclass(bare, Enum) else bare


def _notes(type_: Any) -> Iterator[Any]:
    """All annotations of a type, outer ones first."""
    if get_origin(type_) is Annotated:
        yield from type_.__metadata__
        yield from _notes(type_.__origin__)
    elif get_origin(type_) in {Union, UnionType}:
        for one in get_args(type_):
            yield from _notes(one)


def _bare(type_: Any) -> Any:
    """A type without its annotations, and without None."""
    if get_origin(type_) is Annotated:
        return _bare(type_.__origin__)
    if get_origin(type_) in {Union, UnionType}:
        return next(_bare(one) for one in get_args(type_) if one is not NoneType)
    return type_


def _may_be_none(type_: Any) -> bool:
    if get_origin(type_) is Annotated:
        return _may_be_none(type_.__origin__)
    return NoneType in get_args(type_)
