"""The routes of savepoints."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel

from rechannel.running import RunningJob
from rechannel.serve.bodies import SavepointBody, SavepointDropBody
from rechannel.serve.failures import named_in_the_address, while_it_runs
from rechannel.serve.route_parts import (
    ANY,
    WRONG,
    body_of,
    check_parameters,
    documented_body,
)

BODIES: tuple[type[BaseModel], ...] = (SavepointBody, SavepointDropBody)

_DEPENDS = [Depends(check_parameters)]


def savepoint_routes(job: RunningJob) -> APIRouter:
    """All of them."""
    routes = APIRouter(tags=["savepoints"], dependencies=_DEPENDS)

    @routes.get("/savepoints", summary="Named timesteps whose state is kept", responses=ANY)
    def savepoints() -> dict[str, Any]:
        return {"savepoints": [one.to_dict() for one in job.savepoints.values()]}

    @routes.post(
        "/savepoints",
        summary="Name the latest committed timestep; its state stays while it has the name",
        status_code=201,
        openapi_extra=documented_body(SavepointBody),
        responses=WRONG,
    )
    def make(body: Annotated[SavepointBody, Depends(body_of(SavepointBody))]) -> dict[str, Any]:
        with while_it_runs(job):
            return job.savepoint(body.name, cause=body.cause).to_dict()

    @routes.post(
        "/savepoints/{name}/drop",
        summary="Drop a savepoint; what it was is answered",
        openapi_extra=documented_body(SavepointDropBody, required=False),
        responses=WRONG,
    )
    def drop(
        name: str, body: Annotated[SavepointDropBody, Depends(body_of(SavepointDropBody))]
    ) -> dict[str, Any]:
        with while_it_runs(job), named_in_the_address():
            there = job.savepoints.get(name)
            job.drop_savepoint(name, cause=body.cause)
            return {} if there is None else there.to_dict()

    return routes
