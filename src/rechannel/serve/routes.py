"""The routes of a job."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel

from rechannel.model.codec import encode
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


def watch_routes(job: RunningJob) -> APIRouter:
    """Routes that change nothing."""
    routes = APIRouter(tags=["watch"], responses=ANY, dependencies=[Depends(check_parameters)])
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

    @routes.get("/acts", summary="Upgrades, forks, savepoints, resets and edits, oldest first")
    def acts() -> dict[str, Any]:
        return {"acts": [one.to_dict() for one in job.acts]}

    @routes.get(
        "/reconfigurations/{id}",
        summary="One of them: cause, phases, bins, bytes, latencies before, during and after",
        responses={404: WRONG[404]},
    )
    def reconfiguration(id: str) -> dict[str, Any]:  # noqa: A002 - the path's word
        with named_in_the_address():
            return answers.reconfiguration_of(job, id)

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
