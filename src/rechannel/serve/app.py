"""The web application of a job: its routes, how errors look, and the OpenAPI document."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from rechannel.errors import RechannelError
from rechannel.running import RunningJob
from rechannel.serve.allowed import Allowed
from rechannel.serve.bodies import Failure
from rechannel.serve.control_routes import BODIES as OF_CONTROLLERS
from rechannel.serve.control_routes import control_routes
from rechannel.serve.deploy_routes import BODIES as OF_DEPLOYS
from rechannel.serve.deploy_routes import deploy_routes
from rechannel.serve.failures import status_of
from rechannel.serve.guard import Guard, Rules
from rechannel.serve.health import health_routes
from rechannel.serve.page.routes import page_routes
from rechannel.serve.programs import Deploys
from rechannel.serve.routes import BODIES, change_routes, figure_routes
from rechannel.serve.savepoint_routes import BODIES as OF_SAVEPOINTS
from rechannel.serve.savepoint_routes import savepoint_routes
from rechannel.serve.schemas import schemas as known_schemas
from rechannel.serve.tagged import Tagged
from rechannel.serve.watch_routes import watch_routes
from rechannel.serve.watched import Live, Watched
from rechannel.version import __version__

_DOCUMENTED: tuple[type[BaseModel], ...] = (
    Failure,
    *BODIES,
    *OF_DEPLOYS,
    *OF_SAVEPOINTS,
    *OF_CONTROLLERS,
)
_KINDS = {404: "not_found", 405: "not_allowed"}


def application(job: RunningJob, rules: Rules, allowed: Allowed, deploys: Deploys) -> Guard:
    """The routes of a job, with the guard before them."""
    app = _application(job.name, "A running job: watched, planned for and changed from outside.")
    app.include_router(page_routes())
    app.include_router(health_routes(job))
    app.include_router(watch_routes(Live(job)))
    app.include_router(figure_routes(job))
    app.include_router(change_routes(job, allowed))
    app.include_router(deploy_routes(job, deploys))
    app.include_router(savepoint_routes(job))
    app.include_router(control_routes(job, allowed))
    return Guard(Tagged(app), rules)


def read_only_application(job: Watched, rules: Rules) -> Guard:
    """The page and the routes that only look, with the guard before them."""
    app = _application(job.name, "A job as its state directory shows it: nothing can be changed.")
    app.include_router(page_routes())
    app.include_router(watch_routes(job))
    return Guard(Tagged(app), rules)


def _application(name: str, summary: str) -> FastAPI:
    app = _Application(
        title=f"Rechannel: {name}",
        summary=summary,
        version=__version__,
        # These pages would load scripts from other sites.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_exception_handler(HTTPException, _unknown)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(RechannelError, _failed)
    app.add_exception_handler(TimeoutError, _failed)
    app.add_exception_handler(Exception, _failed)
    return app


class _Application(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """The document, with the bodies that dependencies read."""
        document = super().openapi()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        _, made = models_json_schema(
            [(body, "validation") for body in _DOCUMENTED],
            ref_template="#/components/schemas/{model}",
        )
        schemas.update(made.get("$defs", {}))
        schemas.update(known_schemas())
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        return document


async def _unknown(request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 500
    kind = _KINDS.get(status, "malformed")
    words = {404: "there is no such route", 405: f"{request.method} is not for this route"}
    message = f"{words.get(status, str(error))}: {request.url.path}; see /openapi.json"
    # Such as the methods that are allowed.
    headers = error.headers if isinstance(error, HTTPException) else None
    return JSONResponse({"error": kind, "message": message}, status_code=status, headers=headers)


async def _malformed(request: Request, error: Exception) -> JSONResponse:
    del request
    found = error.errors() if isinstance(error, RequestValidationError) else ()
    message = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found)
    return JSONResponse({"error": "malformed", "message": message}, status_code=422)


async def _failed(request: Request, error: Exception) -> JSONResponse:
    del request
    status, kind = status_of(error)
    message = str(error) or type(error).__name__
    return JSONResponse({"error": kind, "message": message}, status_code=status)
