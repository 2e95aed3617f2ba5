"""Numbers in what is asked for: numbers, and no texts that look like some, however they are asked for.

The command line makes numbers of what is typed; in Python, over HTTP and in plan files they are numbers already.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field


def _number(value: Any) -> Any:
    if isinstance(value, str | bytes | bytearray | bool):
        msg = f"should be a number, not {value!r}"
        raise ValueError(msg)
    return value


Whole: TypeAlias = Annotated[int, BeforeValidator(_number)]
Real: TypeAlias = Annotated[float, BeforeValidator(_number)]
PositiveInt: TypeAlias = Annotated[int, BeforeValidator(_number), Field(gt=0)]
NonNegativeInt: TypeAlias = Annotated[int, BeforeValidator(_number), Field(ge=0)]
PositiveFloat: TypeAlias = Annotated[float, BeforeValidator(_number), Field(gt=0)]
