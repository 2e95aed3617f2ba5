"""The routes that deploy the text of another program."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from rechannel.running import RunningJob
from rechannel.serve.bodies import DeployBody, DeployPlanBody
from rechannel.serve.failures import while_it_runs
from rechannel.serve.programs import Deploys
from rechannel.serve.route_parts import WRONG, body_of, check_parameters, documented_body

BODIES: tuple[type[BaseModel], ...] = (DeployPlanBody, DeployBody)


class PlannedDeploy(BaseModel):
    """What a deploy would do."""

    sha256: Annotated[str, Field(description="Of the file, for POST /deploy.")]
    plan: Annotated[dict[str, Any], Field(description="Every node, and what becomes of it.")]
    text: Annotated[str, Field(description="The plan in words.")]


class Deployed(BaseModel):
    """A deploy was accepted and journalled, or there was nothing to deploy."""

    id: Annotated[str | None, Field(description="Id of the reconfiguration; null if none is due.")]
    sha256: Annotated[str, Field(description="Of the file that was run.")]


def deploy_routes(job: RunningJob, deploys: Deploys) -> APIRouter:
    """All of them. deploys: loads the texts that may be named."""
    routes = APIRouter(tags=["change"], responses=WRONG, dependencies=[Depends(check_parameters)])

    @routes.post(
        "/deploy/plan",
        summary="Show what another version of the program would do. It is imported, and nothing changes",
        openapi_extra=documented_body(DeployPlanBody),
    )
    def plan(body: Annotated[DeployPlanBody, Depends(body_of(DeployPlanBody))]) -> PlannedDeploy:
        with while_it_runs(job), deploys.loaded(body.file, body.name, body.sha256) as text:
            made = job.plan_deploy(text.job, without=body.without)
            return PlannedDeploy(sha256=text.sha256, plan=made.to_json(), text=str(made))

    @routes.post(
        "/deploy",
        summary="Let another version of the program take over, without a stop",
        status_code=202,
        openapi_extra=documented_body(DeployBody),
    )
    def deploy(body: Annotated[DeployBody, Depends(body_of(DeployBody))]) -> Deployed:
        with while_it_runs(job), deploys.loaded(body.file, body.name, body.sha256) as text:
            made = job.deploy(
                text.job,
                without=body.without,
                at=body.when(),
                supersede=body.supersede,
                what=text.what,
                cause=body.cause,
            )
            if made is not None:
                text.keep()
            return Deployed(id=None if made is None else made.id, sha256=text.sha256)

    return routes
