"""From a line of an event log to an event, however the line was written.

Spark writes the name of an event first and no spaces; such a line is decoded at once. Logs that
went through other tools have spaces, another order of keys, `null` for what is not known, numbers
as text, or bytes that are not UTF-8. Such lines are decoded a second time, field by field: what is
optional and cannot be understood has its default, and what is required makes the line a bad one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from math import isfinite, nan
from typing import Any

import msgspec
from msgspec import inspect

from rechannel.profiling.spark.event_files import LONGEST_LINE
from rechannel.profiling.spark.events import EVENT_TYPES, SparkEvent
from rechannel.profiling.spark.numbers import LARGEST
from rechannel.profiling.spark.sql_events import PlanNode, SqlPlanned, SqlStarted

PLAN_DEPTH = 200
"""Levels of a plan that are kept."""

_DECODERS: Mapping[bytes, tuple[msgspec.json.Decoder[Any], type]] = {
    name.encode(): (msgspec.json.Decoder(kind), kind) for name, kind in EVENT_TYPES.items()
}
_PREFIX = b'{"Event":"'


class MalformedEventError(ValueError):
    """A line is not an event."""


class _Named(msgspec.Struct):
    Event: str


_NAMES = msgspec.json.Decoder(_Named)


def decode(line: bytes) -> SparkEvent | None:
    """Return the event of a line; None if a profile does not need it. Raises MalformedEventError."""
    if len(line) > LONGEST_LINE:
        msg = f"it is longer than {LONGEST_LINE >> 20} MiB"
        raise MalformedEventError(msg)
    if not line.endswith(b"}"):
        msg = "it is truncated" if line.startswith(b"{") else "it does not begin with {"
        raise MalformedEventError(msg)
    end = line.find(b'"', len(_PREFIX)) if line.startswith(_PREFIX) else -1
    name = line[len(_PREFIX) : end] if end > 0 else _name(line)
    known = _DECODERS.get(name)
    if known is None:
        return None
    decoder, kind = known
    try:
        event: SparkEvent = decoder.decode(line)
    except RecursionError as error:
        msg = "it is nested too deeply"
        raise MalformedEventError(msg) from error
    except ValueError:
        event = _mended(line, kind)
    if isinstance(event, SqlStarted | SqlPlanned):
        prune(event.plan)
    return event


def _name(line: bytes) -> bytes:
    """Return the name of an event, wherever it stands."""
    try:
        return _NAMES.decode(line).Event.encode()
    except RecursionError as error:
        msg = "it is nested too deeply"
        raise MalformedEventError(msg) from error
    except ValueError as error:
        named = line.startswith(b"{")
        msg = f"it has no event's name: {error}" if named else "it does not begin with {"
        raise MalformedEventError(msg) from error


def prune(plan: PlanNode) -> None:
    """Drop what lies deeper than `PLAN_DEPTH` levels: plans are walked recursively."""
    level = [plan]
    for _ in range(PLAN_DEPTH):
        level = [child for node in level for child in node.children]
        if not level:
            return
    for node in level:
        node.children = []


class _UnfitError(ValueError):
    """A value is not of the kind that is needed."""


def _mended(line: bytes, kind: type) -> SparkEvent:
    """Decode a line that is not as Spark writes it. Raises MalformedEventError."""
    try:
        text = line.decode("utf-8", "replace")
        event: SparkEvent = _fitted(msgspec.json.decode(text), _described(kind))
    except RecursionError as error:
        msg = "it is nested too deeply"
        raise MalformedEventError(msg) from error
    except ValueError as error:
        raise MalformedEventError(str(error)) from error
    return event


@cache
def _described(kind: type) -> inspect.Type:
    return inspect.type_info(kind)


def _fitted(value: Any, kind: inspect.Type) -> Any:
    """Return a value as one of a kind. Raises _UnfitError."""
    match kind, value:
        case inspect.StructType(), dict():
            return _struct(value, kind)
        case inspect.ListType(), list():
            return _all_that_fit(value, kind.item_type)
        case inspect.TupleType(), list() if len(value) == len(kind.item_types):
            return tuple(map(_fitted, value, kind.item_types))
        case inspect.DictType(), dict():
            each = {name: _all_that_fit([one], kind.value_type) for name, one in value.items()}
            return {name: fit[0] for name, fit in each.items() if fit}
        case inspect.UnionType(), _:
            return _any_of(value, kind)
        case inspect.AnyType(), _:
            return value
        case _:
            return _scalar(value, kind)


def _scalar(value: Any, kind: inspect.Type) -> Any:
    """Return a text, a number or a truth value, from one of the others if need be."""
    match kind, value:
        case inspect.NoneType(), None:
            return None
        case inspect.BoolType(), True | False | "true" | "false":
            return value in {True, "true"}
        case inspect.StrType(), str():
            return value
        case inspect.StrType(), int() | float() if not isinstance(value, bool):
            return str(value)
        case inspect.IntType(), int() | float() | str() if not isinstance(value, bool):
            return _whole(value)
        case inspect.FloatType(), int() | float() | str() if not isinstance(value, bool):
            return _real(value)
        case _:
            raise _UnfitError(_problem(value, kind))


def _struct(value: dict[str, Any], kind: inspect.StructType) -> Any:
    found = {}
    for field in kind.fields:
        given = value.get(field.encode_name)
        if given is None:
            if field.required:
                msg = f"it has no {field.encode_name}"
                raise _UnfitError(msg)
            continue
        try:
            found[field.name] = _fitted(given, field.type)
        except _UnfitError as error:
            if field.required:
                msg = f"{field.encode_name}: {error}"
                raise _UnfitError(msg) from error
    return kind.cls(**found)


def _all_that_fit(values: list[Any], kind: inspect.Type) -> list[Any]:
    found = []
    for value in values:
        with suppress(_UnfitError):
            found.append(_fitted(value, kind))
    return found


def _any_of(value: Any, kind: inspect.UnionType) -> Any:
    for each in kind.types:
        with suppress(_UnfitError):
            return _fitted(value, each)
    raise _UnfitError(_problem(value, kind))


def _whole(value: float | str) -> int:
    try:
        number = int(value)
        exact = isinstance(value, str) or number == value
    except (ValueError, OverflowError):
        exact = False
    if not exact or abs(number) > LARGEST:
        msg = f"{_shown(value)} is no whole number of 62 bits"
        raise _UnfitError(msg)
    return number


def _real(value: float | str) -> float:
    try:
        number = float(value)
    except (ValueError, OverflowError):
        number = nan
    if not isfinite(number):
        msg = f"{_shown(value)} is no finite number"
        raise _UnfitError(msg)
    return number


def _problem(value: Any, kind: inspect.Type) -> str:
    wanted = type(kind).__name__.removesuffix("Type").lower()
    return f"{_shown(value)} is not of type {wanted}"


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) < 40 else f"{text[:36]} ..."
