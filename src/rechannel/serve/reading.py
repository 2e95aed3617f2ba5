"""From the bytes of a request to a checked value. Pure.

JSON is read strictly: neither "8" nor true is a number, and unknown fields are refused. An invalid change or plan never
reaches the driver's thread.
"""

from __future__ import annotations

import json
import math
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from rechannel.serve.failures import MalformedError

V = TypeVar("V", bound=BaseModel)

MOST_BYTES = 8_000_000
"""Size of a body."""

MOST_VALUES = 1_000_000
"""Values in a body: as Python objects they take far more memory than as text."""

MOST_COMPLAINTS = 20
"""Wrong fields that a message names one by one."""

MOST_DIGITS = 20
"""Digits of an integer: hashes have 64 bits, and no number is larger."""


def read_body(kind: type[V], raw: bytes) -> V:
    """The value in a body. Raises MalformedError naming the fields that are wrong."""
    text = raw or b"{}"
    _check_json(text)
    try:
        return kind.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise MalformedError(complaints(error)) from None


def complaints(error: ValidationError) -> str:
    """What is wrong, field by field, in one line; above MOST_COMPLAINTS, only how much."""
    if error.error_count() > MOST_COMPLAINTS:
        return f"{error.error_count()} values are wrong"
    return "; ".join(
        f"{'.'.join(str(part) for part in one['loc']) or 'body'}: {one['msg']}"
        for one in error.errors(include_url=False)
    )


def _check_json(text: bytes) -> None:
    """Refuse invalid JSON, and JSON whose numbers or depth are beyond any field."""
    if text.count(b",") > MOST_VALUES:
        msg = f"the body holds more than {MOST_VALUES} values"
        raise MalformedError(msg)
    try:
        json.loads(
            text,
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_finite,
            object_pairs_hook=_members,
        )
    except RecursionError:
        msg = "the body is nested too deeply"
        raise MalformedError(msg) from None
    except ValueError as error:
        msg = f"the body is not JSON: {error}"
        raise MalformedError(msg) from None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            msg = f"the member {name[:100]!r} is given twice: parsers differ in which one counts"
            raise MalformedError(msg)
        made[name] = value
    return made


def _whole(digits: str) -> Any:
    if len(digits.lstrip("-")) > MOST_DIGITS:
        msg = f"the number {digits[:MOST_DIGITS]}... has {len(digits)} digits, more than any field takes"
        raise MalformedError(msg)
    return int(digits)


def _finite(text: str) -> Any:
    number = float(text)
    if not math.isfinite(number):
        msg = f"{text[:MOST_DIGITS]} is not a JSON number, or too large for any field"
        raise MalformedError(msg)
    return number
