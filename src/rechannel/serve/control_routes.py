"""The routes of a job's controllers: list, install by import path, pause, resume, trigger, remove."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel

from rechannel.running import RunningJob
from rechannel.running.controllers import ControllerHandle
from rechannel.running.seen import statuses_of
from rechannel.serve import answers
from rechannel.serve.allowed import Allowed
from rechannel.serve.bodies import EmptyBody, InstallBody, PauseBody
from rechannel.serve.failures import named_in_the_address, while_it_runs
from rechannel.serve.route_parts import ANY, WRONG, body_of, check_parameters, documented_body

BODIES: tuple[type[BaseModel], ...] = (InstallBody, PauseBody, EmptyBody)

_DEPENDS = [Depends(check_parameters)]


@dataclass(frozen=True, kw_only=True)
class Command:
    """What can be done to a controller without saying more than its name."""

    name: str
    """Last part of the address."""
    summary: str
    call: Callable[[ControllerHandle], None]
    ends: bool = False
    """Whether there is no such controller any more: the answer is what it was."""


COMMANDS = (
    Command(
        name="resume",
        summary="Let it go on after a pause or a suspension",
        call=ControllerHandle.resume,
    ),
    Command(
        name="trigger",
        summary="Have it begin at the next timestep boundary",
        call=ControllerHandle.trigger,
    ),
    Command(
        name="remove",
        summary="Remove it and its state; changes that it has requested go on",
        call=ControllerHandle.remove,
        ends=True,
    ),
)


def control_routes(job: RunningJob, allowed: Allowed) -> APIRouter:
    """All of them. allowed: modules whose controllers may be named."""
    routes = APIRouter()
    routes.include_router(_watch(job))
    routes.include_router(_install(job, allowed))
    routes.include_router(_commands(job))
    return routes


def _watch(job: RunningJob) -> APIRouter:
    routes = APIRouter(tags=["watch"], responses=ANY, dependencies=_DEPENDS)

    @routes.get("/controllers", summary="Controllers in the order of their installation")
    def controllers() -> dict[str, Any]:
        return {"controllers": [status.to_dict() for status in statuses_of(job)]}

    @routes.get(
        "/controllers/{name}",
        summary="One of them: status, log, state",
        responses={404: WRONG[404]},
    )
    def controller(name: str) -> dict[str, Any]:
        with named_in_the_address():
            return answers.controller_of(job, name)

    return routes


def _install(job: RunningJob, allowed: Allowed) -> APIRouter:
    routes = APIRouter(tags=["change"], responses=WRONG, dependencies=_DEPENDS)

    @routes.post(
        "/controllers",
        summary="Install a controller of an allowed module in the running stream",
        status_code=201,
        openapi_extra=documented_body(InstallBody),
    )
    def install(body: Annotated[InstallBody, Depends(body_of(InstallBody))]) -> dict[str, Any]:
        with while_it_runs(job):
            handle = job.control(body.wanted().made(allowed.controller))
            return answers.controller_of(job, handle.name)

    return routes


def _commands(job: RunningJob) -> APIRouter:
    routes = APIRouter(tags=["change"], responses=WRONG, dependencies=_DEPENDS)

    @routes.post(
        "/controllers/{name}/pause",
        summary="Let it begin no operation; one that is under way completes",
        openapi_extra=documented_body(PauseBody, required=False),
    )
    def pause(name: str, body: Annotated[PauseBody, Depends(body_of(PauseBody))]) -> dict[str, Any]:
        with while_it_runs(job), named_in_the_address():
            answers.handle_of(job, name).pause(body.reason)
            return answers.controller_of(job, name)

    for command in COMMANDS:
        _add_command(routes, job, command)
    return routes


def _add_command(routes: APIRouter, job: RunningJob, command: Command) -> None:
    @routes.post(
        f"/controllers/{{name}}/{command.name}",
        summary=command.summary,
        name=command.name,
        openapi_extra=documented_body(EmptyBody, required=False),
    )
    def call(name: str, body: Annotated[EmptyBody, Depends(body_of(EmptyBody))]) -> dict[str, Any]:
        del body
        with while_it_runs(job), named_in_the_address():
            before = answers.controller_of(job, name)
            command.call(answers.handle_of(job, name))
            return before if command.ends else answers.controller_of(job, name)
