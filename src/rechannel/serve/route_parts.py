"""What the routes of a job share: the answers that may go wrong, parameters, bodies."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from rechannel.serve.failures import MalformedError
from rechannel.serve.reading import read_body

V = TypeVar("V", bound=BaseModel)

# By reference: FastAPI would make a validator of a model for each answer of each route.
_FAILURE = {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}}
WRONG: dict[int | str, dict[str, Any]] = {
    status: {"description": words, "content": _FAILURE}
    for status, words in (
        (401, "The token is missing or wrong."),
        (
            403,
            "The Host or the Origin is not allowed, or the module of a function or a controller.",
        ),
        (404, "There is no such operator, reconfiguration or controller."),
        (408, "The body did not arrive in time."),
        (
            409,
            "Refused: the message has the reason, and what would be accepted. Nothing has happened.",
        ),
        (410, "The job has ended."),
        (413, "The body is too large."),
        (415, "The Content-Type is not JSON."),
        (422, "The body, or a parameter, is malformed: the message names the field."),
        (500, "The job itself is in trouble."),
        (503, "Ask again later."),
    )
}
ANY: dict[int | str, dict[str, Any]] = {status: WRONG[status] for status in (401, 403, 422, 500)}
"""What may be wrong with any request."""

QUERIES = {
    "/progress": ("recent", "after"),
    "/reconfigurations": ("open", "last"),
    "/advice": ("policy", "utilisation", "interval", "rate", "window"),
}
"""Parameters by route; other routes have none."""


async def check_parameters(request: Request) -> None:
    """A dependency: refuse unknown parameters. Raises MalformedError."""
    there = QUERIES.get(request.url.path, ())
    for name in request.query_params:
        if name not in there:
            msg = f"query: there is no parameter {name!r} here; there are {list(there)}"
            raise MalformedError(msg)


def body_of(kind: type[V]) -> Callable[[Request], Coroutine[Any, Any, V]]:
    """A dependency: the request's body, read strictly."""

    async def read(request: Request) -> V:
        return await run_in_threadpool(read_body, kind, await request.body())

    return read


def documented_body(kind: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """The body in the OpenAPI document: FastAPI does not see the body that a dependency reads."""
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {
        "requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}
    }


def documented_answer(schema: str) -> dict[int | str, dict[str, Any]]:
    """The answer in the OpenAPI document, by the name of its schema."""
    ref = {"$ref": f"#/components/schemas/{schema}"}
    return {200: {"description": "The answer.", "content": {"application/json": {"schema": ref}}}}


def documented_members(
    member: str, schema: str, *, by_name: bool = False
) -> dict[int | str, dict[str, Any]]:
    """An answer with one member: a value of a schema, a list of them, or (by_name) one for each name."""
    ref: dict[str, Any] = {"$ref": f"#/components/schemas/{schema}"}
    shape = {"type": "object", "additionalProperties": ref} if by_name else ref
    if member.endswith("s") and not by_name:
        shape = {"type": "array", "items": ref}
    answer = {"type": "object", "properties": {member: shape}, "required": [member]}
    return {
        200: {"description": "The answer.", "content": {"application/json": {"schema": answer}}}
    }
