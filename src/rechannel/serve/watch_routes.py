"""The routes that only look, of a job that runs and of a state directory."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from rechannel.model.codec import encode
from rechannel.serve.failures import named_in_the_address
from rechannel.serve.route_parts import ANY, WRONG, check_parameters, documented_members
from rechannel.serve.watched import Watched


def watch_routes(job: Watched) -> APIRouter:
    """All of them."""
    routes = APIRouter()
    for part in (_standing, _past, _drawn):
        routes.include_router(part(job))
    return routes


def _router() -> APIRouter:
    return APIRouter(tags=["watch"], responses=ANY, dependencies=[Depends(check_parameters)])


def _standing(job: Watched) -> APIRouter:
    routes = _router()

    @routes.get(
        "/status", summary="Status of the job, its operators, and the offsets of its sources"
    )
    def status() -> dict[str, Any]:
        return job.status()

    @routes.get("/configuration", summary="The configuration of the next timestep, bin by bin")
    def configuration() -> dict[str, Any]:
        return dict(encode(job.configuration()))

    @routes.get(
        "/sinks",
        summary="How far each sink is behind the commits, and why",
        responses=documented_members("sinks", "SinkStatus", by_name=True),
    )
    def sinks() -> dict[str, Any]:
        return {"sinks": {name: sink.to_dict() for name, sink in job.sinks().items()}}

    return routes


def _past(job: Watched) -> APIRouter:
    routes = _router()

    @routes.get("/progress", summary="Progress of the last committed timesteps, oldest first")
    def progress(
        recent: Annotated[int, Query(ge=0, le=1000)] = 20,
        after: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    ) -> dict[str, Any]:
        known = job.progress()
        later = [each for each in known if after is None or each.timestep > after]
        return {
            "last": known[-1].to_dict() if known else None,
            "recent": [each.to_dict() for each in later[-recent:]] if recent else [],
        }

    @routes.get(
        "/reconfigurations",
        summary="The last reconfigurations of this job, or all open ones, oldest first",
    )
    def reconfigurations(
        open: bool = False,  # noqa: A002 - the query's word
        last: Annotated[int, Query(ge=1, le=10_000)] = 100,
    ) -> dict[str, Any]:
        found = job.open_reconfigurations() if open else job.reconfigurations(last)
        return {"reconfigurations": found}

    @routes.get("/acts", summary="Upgrades, forks, savepoints, resets and edits, oldest first")
    def acts() -> dict[str, Any]:
        return {"acts": [one.to_dict() for one in job.acts()]}

    @routes.get(
        "/reconfigurations/{id}",
        summary="One of them: cause, phases, bins, bytes, latencies before, during and after",
        responses={404: WRONG[404]},
    )
    def reconfiguration(id: str) -> dict[str, Any]:  # noqa: A002 - the path's word
        with named_in_the_address():
            return job.reconfiguration(id)

    return routes


def _drawn(job: Watched) -> APIRouter:
    routes = _router()

    @routes.get(
        "/dataflow",
        summary="The nodes of the running dataflow, upstream first",
        responses=documented_members("nodes", "DataflowNode"),
    )
    def dataflow() -> dict[str, Any]:
        return {"nodes": [node.to_dict() for node in job.nodes()]}

    @routes.get(
        "/bins",
        summary="By operator with state: which task owns each bin, what it has, where it is to move",
        responses=documented_members("operators", "OperatorBins", by_name=True),
    )
    def bins() -> dict[str, Any]:
        return {"operators": {name: bins.to_dict() for name, bins in job.bins().items()}}

    @routes.get(
        "/flow",
        summary="Rows between operators in the latest timesteps, and their critical path",
        responses=documented_members("flow", "Flow"),
    )
    def flow() -> dict[str, Any]:
        return {"flow": job.flow().to_dict()}

    return routes
