"""`rechannel reconfigure`: change a running job."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from rechannel.cli.options import JsonOption
from rechannel.cli.remote.client import Client, TokenOption
from rechannel.cli.remote.commands import Json, group, url_of
from rechannel.cli.remote.options import Made, expanded
from rechannel.cli.remote.strategy import ChosenStrategy
from rechannel.cli.remote.values import moment, seconds
from rechannel.cli.screen import say, show, show_json
from rechannel.errors import NotReadyError, RefusedError

NOT_DONE = 1
"""Exit code of `--wait` if the reconfiguration did not end as done."""

GOES_ON = 4
"""Exit code of `--wait` if the reconfiguration is not finished in time. It continues without the command."""

WAIT = "10min"

_POLL_SECONDS = 0.1
LOST_SECONDS = 60.0
"""For how long a job may leave questions without an answer while its reconfiguration is waited for."""

AtOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="N|TIME|event:TIME[@OPERATOR]",
        help="When the change holds: from a timestep, a time of the stream, or an event time.",
    ),
]
SupersedeOption: TypeAlias = Annotated[
    bool, typer.Option("--supersede", help="Take the place of open changes of the same operators.")
]
WaitOption: TypeAlias = Annotated[bool, typer.Option("--wait", help="Wait until it is finished.")]
TimeoutOption: TypeAlias = Annotated[
    str, typer.Option(metavar="TIME", help="Longest wait of --wait, such as 30s or 2min.")
]
CauseOption: TypeAlias = Annotated[
    str, typer.Option(help="Who requests it and why, for the history.")
]

CAUSE = "asked for on the command line"


def moment_from(
    at: AtOption = None, supersede: SupersedeOption = False, cause: CauseOption = CAUSE
) -> Json:
    """The fields of a request that say when its change holds, and why."""
    return {"at": None if at is None else moment(at), "supersede": supersede, "cause": cause}


def _wait_from(wait: WaitOption = False, timeout: TimeoutOption = WAIT) -> float | None:
    """Seconds to wait until the reconfiguration is finished; None = do not wait."""
    return seconds(timeout) if wait else None


ChosenMoment: TypeAlias = Annotated[Json, Made(moment_from)]
ChosenWait: TypeAlias = Annotated[float | None, Made(_wait_from)]


@expanded
def _ask(  # noqa: PLR0917 - what the options of the command make
    change: Json,
    context: typer.Context,
    strategy: ChosenStrategy,
    moment: ChosenMoment,
    wait: ChosenWait,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    body = {"change": change, "strategy": strategy, **moment}
    _send(url_of(context), token, body, wait=wait, as_json=as_json)


@expanded
def _replay(
    context: typer.Context,
    plan: Annotated[Path, typer.Option(metavar="FILE", help="File of `rechannel plan --save`.")],
    moment: ChosenMoment,
    wait: ChosenWait,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Carry out a saved plan."""
    _send(url_of(context), token, {"plan": _read(plan), **moment}, wait=wait, as_json=as_json)


reconfigure = group(
    "Change a running job: `reconfigure URL CHANGE ...` or `reconfigure URL --plan FILE`.",
    _ask,
    _replay,
)


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        msg = f"plan file {file} cannot be read: {error}"
        raise RefusedError(msg) from error


def _send(
    url: str, token: str | None, body: dict[str, Any], *, wait: float | None, as_json: bool
) -> None:
    """Send a request. wait: seconds to wait for its end; None = do not wait."""
    with Client(url, token) as job:
        answer = job.post("reconfigure", body=body)
        if wait is not None:
            answer = wait_for_end(job, answer["id"], wait)
    if as_json:
        show_json(answer)
    else:
        show(outcome(answer))
    check_end(url, answer, wait=wait)


def check_end(url: str, answer: dict[str, Any], *, wait: float | None) -> None:
    """End the command with its exit code if a reconfiguration that it has waited for is not done."""
    if wait is not None and answer["open"]:
        say(_timeout_message(url, answer["id"]))
        raise typer.Exit(GOES_ON)
    if wait is not None and answer["phase"] != "done":
        raise typer.Exit(NOT_DONE)


def wait_for_end(job: Client, id_: str, most: float) -> dict[str, Any]:
    """The reconfiguration once it is finished, or after `most` seconds.

    An answer that is lost is asked for again. Raises NotReadyError if there is none for some time.
    """
    answered = time.monotonic()
    until = answered + most
    while True:
        try:
            facts = job.get("reconfigurations", id_)
        except NotReadyError:
            if time.monotonic() > min(until, answered + LOST_SECONDS):
                raise
            time.sleep(_POLL_SECONDS)
            continue
        answered = time.monotonic()
        left = until - answered
        if not facts["open"] or left <= 0:
            return facts
        time.sleep(min(_POLL_SECONDS, left))


def _timeout_message(url: str, id_: str) -> str:
    return (
        f"It is not finished within --timeout, and continues: `rechannel history {url} {id_}` shows how far it is,"
        f" `rechannel abort {url} {id_}` ends it or leads it back."
    )


def outcome(answer: dict[str, Any]) -> str:
    """Return in a sentence what became of a reconfiguration."""
    if "phase" not in answer:
        return f"Reconfiguration {answer['id']} is accepted."
    text = f"Reconfiguration {answer['id']} is {answer['phase']}"
    if answer["reason"]:
        text += f": {answer['reason']}"
    elif answer["first_timestep"] is not None:
        text += (
            f": {answer['bins']} bins moved in timesteps"
            f" {answer['first_timestep']} to {answer['last_timestep']}"
        )
    return f"{text}."
