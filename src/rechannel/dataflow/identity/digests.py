"""What a value does, as a digest: the same in every process, whatever line and file it stands in.

Of a function counts its code, with everything inside it, its defaults, what it closes over, and the constants and
functions that it names, as far as they are of its own top-level package. Not counted: line numbers, comments, files,
docstrings, and what functions of other packages do inside. Bytecode is what one version of Python makes of the source:
a digest holds within a minor version of Python.

A digest cannot see into everything. A value that is neither plain data nor code counts by its type, and the digest is
then not `complete`: two that are equal may still do different things. Of global variables only constants are read,
since others may look different in another process at another time.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, fields, is_dataclass
from enum import Enum
from types import CodeType, FunctionType, ModuleType
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from rechannel.dataflow.identity.digest_names import first_module, first_name

_NAMES_GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_BEHAVIOUR = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)
_HAS_DOCSTRING = 0x4000000
_VALUES = {"datetime", "decimal", "fractions", "ipaddress", "re", "uuid", "zoneinfo"}
CODES = 4096
"""Codes whose reading is kept: a driver that changes its program reads most of it again."""
_PLAIN = (type(None), bool, int, float, complex, str, bytes, slice, type(Ellipsis))

Form = tuple[Any, ...] | str
"""Nested tuples of text that two values share when they do the same."""


@dataclass(frozen=True, slots=True)
class Digest:
    """A sha256 in hex, and whether it saw everything."""

    text: str
    complete: bool


def digest_of(value: Any) -> Digest:
    """Digest of a function, of plain data, or of a dataclass that holds such."""
    reader = _Reader()
    form = reader.form(value)
    return Digest(hashlib.sha256(repr(form).encode()).hexdigest(), reader.complete)


def path_of(function: Any) -> str | None:
    """Import path ("module:qualname") of a function or class; None for what has none."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or "<" in name:
        return None
    return f"{module}:{name}"


@runtime_checkable
class Digested(Protocol):
    """A value whose class or fields had other names when journals first had digests of it."""

    def digested(self) -> tuple[str, Mapping[str, Any]]:
        """The class as "module:qualname" and its members by name, as they were then."""


def _first_path_of(function: Any) -> str | None:
    """Import path that a function or class had when it first counted in digests."""
    path = path_of(function)
    if path is None:
        return None
    module, _, name = path.partition(":")
    return f"{first_module(module)}:{name}"


class _Reader:
    def __init__(self) -> None:
        self.complete = True
        self._within: list[Any] = []
        self._functions: dict[int, int] = {}
        self._home: str | None = None

    def form(self, value: Any) -> Form:
        """What tells a value from others; recursive values refer to how far up they stand."""
        if isinstance(value, _PLAIN):
            return (type(value).__name__, repr(value))
        for depth, above in enumerate(reversed(self._within)):
            if above is value:
                return ("above", str(depth))
        self._within.append(value)
        try:
            return self._nested(value)
        finally:
            self._within.pop()

    def _nested(self, value: Any) -> Form:
        readers = (self._program, self._container, self._value, self._instance)
        return next(form for form in (reader(value) for reader in readers) if form is not None)

    def _program(self, value: Any) -> Form | None:
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, CodeType):
            return _code(value)
        if isinstance(value, functools.partial):
            return ("partial", *map(self.form, (value.func, value.args, value.keywords)))
        if inspect.ismethod(value):
            return ("method", self.form(value.__func__), self.form(value.__self__))
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, ModuleType):
            return ("module", value.__name__)
        if inspect.isbuiltin(value) or isinstance(value, np.ufunc):
            return ("built in", _first_path_of(value) or value.__name__)
        return None

    def _container(self, value: Any) -> Form | None:
        if isinstance(value, tuple | list):
            return (type(value).__name__, *map(self.form, value))
        if isinstance(value, set | frozenset):
            return ("set", *sorted(repr(self.form(item)) for item in value))
        if isinstance(value, Mapping):
            return ("mapping", *((self.form(k), self.form(v)) for k, v in value.items()))
        return None

    def _value(self, value: Any) -> Form | None:
        """Data that is no container of other values."""
        kind = type(value)
        name = first_name(kind)
        if isinstance(value, pa.Schema):
            return ("schema", *(f"{f.name} {f.type} {f.nullable}" for f in value))
        if isinstance(value, np.ndarray) and value.dtype != object:
            return ("array", str(value.dtype), str(value.shape), _bytes(value.tobytes()))
        if isinstance(value, Enum):
            return (name, value.name)
        arrow = pa.DataType | pa.Field | pa.Scalar
        if isinstance(value, arrow | np.generic) or kind.__module__ in _VALUES:
            return (name, repr(value))
        return None

    def _instance(self, value: Any) -> Form:
        kind = type(value)
        name = first_name(kind)
        if isinstance(value, Digested):
            named, members = value.digested()
            return (named, *((each, self.form(member)) for each, member in members.items()))
        if is_dataclass(value):
            said = (f for f in fields(value) if not _unsaid(f, value))
            parts = ((f.name, self.form(getattr(value, f.name, None))) for f in said)
            return (name, *self._methods(kind), *parts)
        if hasattr(value, "__wrapped__"):  # functools.cache and the like
            return (name, self.form(value.__wrapped__))
        if callable(value) and hasattr(value, "__dict__"):
            return (name, *self._methods(kind), self.form(vars(value)))
        self.complete = False
        return ("opaque", name)

    def _class(self, kind: type) -> Form:
        """A class counts by its name; one that was made inside a function by its methods as well."""
        path = _first_path_of(kind)
        return ("class", kind.__name__, *self._methods(kind)) if path is None else ("class", path)

    def _methods(self, kind: type) -> Iterator[Form]:
        """The code of a class that a user wrote."""
        for part in kind.__mro__:
            if part.__module__ != kind.__module__ or part.__module__.startswith("rechannel."):
                continue
            for name, member in sorted(vars(part).items(), key=lambda item: item[0]):
                if isinstance(member, FunctionType) and (name == "__call__" or name[:2] != "__"):
                    yield (name, self.form(member))

    def _function(self, function: FunctionType) -> Form:
        if id(function) in self._functions:
            return ("function", str(self._functions[id(function)]))
        package, path = _package_of(function), _first_path_of(function)
        if self._home is not None and package != self._home and path is not None:
            return ("function", path)
        self._functions[id(function)] = len(self._functions)
        before, self._home = self._home, self._home or package
        try:
            return (
                "function",
                _code(function.__code__),
                self.form(function.__defaults__),
                self.form(function.__kwdefaults__),
                ("closure", *map(self._cell, function.__closure__ or ())),
                ("globals", *self._globals(function)),
            )
        finally:
            self._home = before

    def _globals(self, function: FunctionType) -> Iterator[Form]:
        """What a function names outside of itself, in the order of names."""
        for name in sorted(_global_names(function.__code__) & function.__globals__.keys()):
            value = function.__globals__[name]
            if _is_constant(value) or isinstance(value, FunctionType | ModuleType):
                yield (name, self.form(value))
                continue
            path = _first_path_of(value)
            self.complete &= path is not None
            yield (name, path or type(value).__qualname__)

    def _cell(self, cell: Any) -> Form:
        try:
            value = cell.cell_contents
        except ValueError:  # not bound yet
            return "empty"
        return self.form(value)


@functools.lru_cache(maxsize=CODES)
def _code(code: CodeType) -> Form:
    """Code alone: its constants are plain data, tuples of such, and the code inside it."""
    constants = list(map(_constant, code.co_consts))
    if _has_docstring(code):
        constants[0] = _constant(None)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    return (
        "code",
        _bytes(code.co_code),
        _bytes(code.co_exceptiontable),
        str((*counts, code.co_flags & _BEHAVIOUR)),
        str(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]),
        str(code.co_names),
        *constants,
    )


def _unsaid(part: Field[Any], value: Any) -> bool:
    """Whether a field that classes got later says nothing: digests of values that were made before it stay."""
    return bool(part.metadata.get("later")) and getattr(value, part.name, None) == part.default


def _constant(value: Any) -> Form:
    return _Reader().form(value)


def _has_docstring(code: CodeType) -> bool:
    if sys.version_info >= (3, 13):
        return bool(code.co_flags & _HAS_DOCSTRING)
    # Before, the first constant of a function (not of a lambda) was its docstring or None.
    named = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
    return bool(named and code.co_consts and isinstance(code.co_consts[0], str))


def _package_of(function: FunctionType) -> str:
    return str(function.__module__).partition(".")[0]


@functools.lru_cache(maxsize=CODES)
def _global_names(code: CodeType) -> frozenset[str]:
    read = dis.get_instructions(code)
    names = frozenset(i.argval for i in read if i.opname in _NAMES_GLOBALS)
    inner = (c for c in code.co_consts if isinstance(c, CodeType))
    return names.union(*map(_global_names, inner))


def _is_constant(value: Any) -> bool:
    """Whether a value is data that cannot change without the function noticing."""
    if isinstance(value, tuple | frozenset):
        return all(map(_is_constant, value))
    return isinstance(value, _PLAIN)


def _bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
