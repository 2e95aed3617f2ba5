"""Whether a job lives, and whether it gets on: for what restarts processes, and for what waits for them.

These two routes need no token, since an orchestrator's probes have none to send. So their answers say nothing of the
data: one word, or the topics of what is being retried. They wait for nothing, and need none of the threads that other
requests may all hold while a store does not answer.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends

from rechannel.errors import NotReadyError
from rechannel.running import RunningJob
from rechannel.serve.failures import EndedError
from rechannel.serve.route_parts import WRONG, check_parameters

LIVE, READY = "/livez", "/readyz"
OPEN = frozenset({LIVE, READY})
"""Routes that need no token."""

_WITHOUT_TOKEN: dict[str, Any] = {"security": []}


def health_routes(job: RunningJob) -> APIRouter:
    """Routes for probes."""
    ended: dict[int | str, dict[str, Any]] = {status: WRONG[status] for status in (403, 410, 422)}
    routes = APIRouter(tags=["health"], responses=ended, dependencies=[Depends(check_parameters)])

    @routes.get(
        LIVE,
        summary="Whether the driver runs; if not, start it again. No token is needed",
        openapi_extra=_WITHOUT_TOKEN,
    )
    async def live() -> dict[str, str]:
        _check_active(job)
        return {"status": "live"}

    @routes.get(
        READY,
        summary="Whether the job gets on: it neither ends nor retries anything. No token is needed",
        responses={503: WRONG[503]},
        openapi_extra=_WITHOUT_TOKEN,
    )
    async def ready() -> dict[str, str]:
        _check_active(job)
        status = job.status
        if status.message != "running":
            msg = "the job is ending"
            raise NotReadyError(msg)
        if status.troubles:
            msg = f"the job retries: {', '.join(sorted(status.troubles))}; /status says why"
            raise NotReadyError(msg)
        return {"status": "ready"}

    return routes


def _check_active(job: RunningJob) -> None:
    if not job.is_active:
        msg = "the job has ended"
        raise EndedError(msg)
