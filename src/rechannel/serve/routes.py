"""The routes of a running job: its figures, and its changes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel

from rechannel.reconfigure.plan import Plan
from rechannel.running import RunningJob
from rechannel.serve import answers
from rechannel.serve.allowed import Allowed
from rechannel.serve.bodies import AbortBody, Accepted, PlanBody, ReconfigureBody
from rechannel.serve.failures import named_in_the_address, while_it_runs
from rechannel.serve.metrics import registry_of
from rechannel.serve.route_parts import (
    ANY,
    WRONG,
    body_of,
    check_parameters,
    documented_answer,
    documented_body,
)

BODIES: tuple[type[BaseModel], ...] = (PlanBody, ReconfigureBody, AbortBody)

MOST_ASKED = 1e12
"""Largest number in a question."""

_TEXT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "In the text format of Prometheus.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}


def figure_routes(job: RunningJob) -> APIRouter:
    """Routes that only look, and that only a running job has: advice, and metrics."""
    routes = APIRouter(tags=["watch"], responses=ANY, dependencies=[Depends(check_parameters)])
    registry = registry_of(job)

    @routes.get(
        "/advice",
        summary="How much the stream needs by what was measured, and what its controllers decided",
        responses={**documented_answer("StreamAdvice"), 409: WRONG[409]},
    )
    def advice(
        policy: Annotated[str, Query(max_length=100)] = "ds2-timesteps",
        utilisation: Annotated[float, Query(gt=0, le=1)] = 0.8,
        interval: Annotated[float | None, Query(gt=0, le=MOST_ASKED)] = None,
        rate: Annotated[float | None, Query(gt=0, le=MOST_ASKED)] = None,
        window: Annotated[float, Query(gt=0, le=MOST_ASKED)] = 10.0,
    ) -> dict[str, Any]:
        return job.advice(
            policy=policy, utilisation=utilisation, interval=interval, rate=rate, window=window
        ).to_dict()

    @routes.get(
        "/metrics", summary="Metrics for Prometheus", response_class=Response, responses=_TEXT
    )
    def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return routes


def change_routes(job: RunningJob, allowed: Allowed) -> APIRouter:
    """Routes that request changes. allowed: modules whose functions may be named."""
    routes = APIRouter(tags=["change"], responses=WRONG, dependencies=[Depends(check_parameters)])

    @routes.post(
        "/plan",
        summary="Show what a change would do: operators, tasks, bins, bytes, timesteps. It changes nothing",
        openapi_extra=documented_body(PlanBody),
    )
    def plan(body: Annotated[PlanBody, Depends(body_of(PlanBody))]) -> dict[str, Any]:
        with while_it_runs(job):
            return job.plan(allowed.loaded_already(body.to_change()), body.strategy).to_json()

    @routes.post(
        "/reconfigure",
        summary="Change the running stream: a change, changes that are one, or a plan",
        status_code=202,
        openapi_extra=documented_body(ReconfigureBody),
    )
    def reconfigure(
        body: Annotated[ReconfigureBody, Depends(body_of(ReconfigureBody))],
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
        openapi_extra=documented_body(AbortBody, required=False),
    )
    def abort(
        id: str,  # noqa: A002 - the path's word
        body: Annotated[AbortBody, Depends(body_of(AbortBody))],
    ) -> dict[str, Any]:
        with while_it_runs(job), named_in_the_address():
            job.abort(id, body.reason)
            return answers.reconfiguration_of(job, id)

    return routes
