"""The routes of a job."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query, Request, Response
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from rechannel.model.codec import encode
from rechannel.reconfigure.plan import Plan
from rechannel.running import RunningJob
from rechannel.serve import answers
from rechannel.serve.allowed import Allowed
from rechannel.serve.bodies import AbortBody, Accepted, Failure, PlanBody, ReconfigureBody
from rechannel.serve.failures import MalformedError, named_in_the_address, while_it_runs
from rechannel.serve.metrics import registry_of
from rechannel.serve.reading import read_body

V = TypeVar("V", bound=BaseModel)

BODIES: tuple[type[BaseModel], ...] = (PlanBody, ReconfigureBody, AbortBody)

_WRONG: dict[int | str, dict[str, Any]] = {
    status: {"model": Failure, "description": words}
    for status, words in (
        (401, "The token is missing or wrong."),
        (403, "The Host or the Origin is not allowed, or the module of a function."),
        (404, "There is no such operator or reconfiguration."),
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
_ANY: dict[int | str, dict[str, Any]] = {status: _WRONG[status] for status in (401, 403, 422, 500)}
"""What may be wrong with any request."""

_TEXT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "In the text format of Prometheus.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}

_QUERIES = {"/progress": ("recent",), "/reconfigurations": ("open", "last")}
"""Parameters by route; other routes have none."""


def _check_parameters(request: Request) -> None:
    """A dependency: refuse unknown parameters. Raises MalformedError."""
    there = _QUERIES.get(request.url.path, ())
    for name in request.query_params:
        if name not in there:
            msg = f"query: there is no parameter {name!r} here; there are {list(there)}"
            raise MalformedError(msg)


def _body(kind: type[V]) -> Callable[[Request], Coroutine[Any, Any, V]]:
    """A dependency: the request's body, read strictly."""

    async def read(request: Request) -> V:
        return await run_in_threadpool(read_body, kind, await request.body())

    return read


def _documented_body(kind: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """The body in the OpenAPI document: FastAPI does not see the body that a dependency reads."""
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {
        "requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}
    }


def watch_routes(job: RunningJob) -> APIRouter:
    """Routes that change nothing."""
    routes = APIRouter(tags=["watch"], responses=_ANY, dependencies=[Depends(_check_parameters)])
    registry = registry_of(job)

    @routes.get(
        "/status", summary="Status of the job, its operators, and the offsets of its sources"
    )
    def status() -> dict[str, Any]:
        return answers.status_of(job)

    @routes.get("/configuration", summary="The configuration of the next timestep, bin by bin")
    def configuration() -> dict[str, Any]:
        return dict(encode(job.configuration))

    @routes.get("/progress", summary="Progress of the last committed timesteps, oldest first")
    def progress(recent: Annotated[int, Query(ge=0, le=1000)] = 20) -> dict[str, Any]:
        known = [each.to_dict() for each in job.recent_progress]
        return {"last": known[-1] if known else None, "recent": known[-recent:] if recent else []}

    @routes.get(
        "/reconfigurations",
        summary="The last reconfigurations of this job, or all open ones, oldest first",
    )
    def reconfigurations(
        open: bool = False,  # noqa: A002 - the query's word
        last: Annotated[int, Query(ge=1, le=10_000)] = 100,
    ) -> dict[str, Any]:
        found = answers.open_reconfigurations(job) if open else answers.history_of(job, last)
        return {"reconfigurations": found}

    @routes.get(
        "/reconfigurations/{id}",
        summary="One of them: cause, phases, bins, bytes, latencies before, during and after",
        responses={404: _WRONG[404]},
    )
    def reconfiguration(id: str) -> dict[str, Any]:  # noqa: A002 - the path's word
        with named_in_the_address():
            return answers.reconfiguration_of(job, id)

    @routes.get(
        "/metrics", summary="Metrics for Prometheus", response_class=Response, responses=_TEXT
    )
    def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return routes


def change_routes(job: RunningJob, allowed: Allowed) -> APIRouter:
    """Routes that request changes. allowed: modules whose functions may be named."""
    routes = APIRouter(tags=["change"], responses=_WRONG, dependencies=[Depends(_check_parameters)])

    @routes.post(
        "/plan",
        summary="Show what a change would do: operators, tasks, bins, bytes, timesteps. It changes nothing",
        openapi_extra=_documented_body(PlanBody),
    )
    def plan(body: Annotated[PlanBody, Depends(_body(PlanBody))]) -> dict[str, Any]:
        with while_it_runs(job):
            return job.plan(allowed.loaded_already(body.to_change()), body.strategy).to_json()

    @routes.post(
        "/reconfigure",
        summary="Change the running stream: a change, changes that are one, or a plan",
        status_code=202,
        openapi_extra=_documented_body(ReconfigureBody),
    )
    def reconfigure(
        body: Annotated[ReconfigureBody, Depends(_body(ReconfigureBody))],
    ) -> Accepted:
        with while_it_runs(job):
            change = body.to_change()
            made = job.reconfigure(
                change if isinstance(change, Plan) else allowed.loaded(change),
                body.strategy,
                at=body.when(),
                supersede=body.supersede,
                cause=body.cause,
            )
            return Accepted(id=made.id)

    @routes.post(
        "/reconfigurations/{id}/abort",
        summary="End a reconfiguration that has not begun, or lead back one that has",
        openapi_extra=_documented_body(AbortBody, required=False),
    )
    def abort(
        id: str,  # noqa: A002 - the path's word
        body: Annotated[AbortBody, Depends(_body(AbortBody))],
    ) -> dict[str, Any]:
        with while_it_runs(job), named_in_the_address():
            job.abort(id, body.reason)
            return answers.reconfiguration_of(job, id)

    return routes
