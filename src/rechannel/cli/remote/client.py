"""A client of a served job: JSON in, JSON out, and the errors that the job raised."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias
from urllib.parse import quote, urlsplit

import typer

from rechannel.errors import (
    DamagedStateError,
    NotReadyError,
    RechannelError,
    RefusedError,
    SetUpError,
    UnknownOperatorError,
)
from rechannel.state.tokens import token_left_for

ANSWER_SECONDS = 130.0
"""Timeout of requests: a job answers between two timesteps, and gives up earlier itself."""

LOOK_SECONDS = 30.0
"""Timeout of requests that change nothing: they do not wait for a timestep."""

CONNECT_SECONDS = 10.0

UrlArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="URL", help="URL of a served job, such as http://127.0.0.1:8520.")
]
TOKEN = "RECHANNEL_TOKEN"
"""Environment variable with the token: other users of the machine can read command lines."""

TokenOption: TypeAlias = Annotated[
    str | None,
    typer.Option(help=f"Token that the job was served with; default: that of {TOKEN}."),
]

_ERRORS: dict[str, type[RechannelError]] = {
    "unknown_operator": UnknownOperatorError,
    "not_found": NotReadyError,
    "not_ready": NotReadyError,
    "damaged_state": DamagedStateError,
    "failed": RechannelError,
    "internal": RechannelError,
}


def token_of(option: str | None) -> str | None:
    """The given token, or that of the environment. Raises RefusedError for an invalid one."""
    token = option or os.environ.get(TOKEN) or None
    if token is not None and not (token.isascii() and token.isprintable()):
        msg = f"the token (--token, or {TOKEN} in the environment) is not printable ASCII"
        raise RefusedError(msg)
    return token


def is_url(text: str) -> bool:
    """Whether a text is the URL of a served job: of HTTP, or HOST:PORT if there is no such file."""
    if "://" in text:
        return text.startswith(("http://", "https://"))
    return bool(re.fullmatch(r"[\w.\-\[\]:]*:\d{1,5}", text)) and not Path(text).exists()


def base_of(url: str) -> str:
    """The URL without a slash at its end. Raises RefusedError."""
    full = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(full)
        right = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        right = False
    if not right:
        msg = f"{url!r} is not the URL of a job: give that of job.serve(), such as http://127.0.0.1:8520"
        raise RefusedError(msg)
    return full.rstrip("/")


class Client:
    """Sends requests to one job. Use it in a `with`."""

    def __init__(self, url: str, token: str | None) -> None:
        """Raises SetUpError without the extra `serve`, RefusedError for an invalid URL or token."""
        if find_spec("httpx") is None:
            msg = "talking to a job needs httpx: pip install 'rechannel[serve]'"
            raise SetUpError(msg)
        import httpx

        self._url = base_of(url)
        secret = token_of(token) or token_left_for(self._url)
        headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        timeout = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
        # Proxies of the environment are for other hosts.
        self._http = httpx.Client(headers=headers, timeout=timeout, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, *path: str, **query: str | int) -> dict[str, Any]:
        """The answer of a route. Raises what the job raised, NotReadyError if nothing answers."""
        return self._ask("GET", path, params=query, timeout=LOOK_SECONDS)

    def post(self, *path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a body. Raises what the job raised, NotReadyError if nothing answers."""
        return self._ask("POST", path, json=body)

    def _ask(self, method: str, path: tuple[str, ...], **more: Any) -> dict[str, Any]:
        import httpx

        address = "/".join([self._url, *(quote(part, safe="") for part in path)])
        try:
            answer = self._http.request(method, address, **more)
        except httpx.ReadTimeout as error:
            msg = f"{self._url} has not answered in time: its driver hangs, or has very long timesteps"
            if method != "GET":
                msg += (
                    f". The request may still be carried out: see `rechannel history {self._url}`"
                )
            raise NotReadyError(msg) from error
        except httpx.HTTPError as error:
            msg = f"nothing answers at {self._url} ({error}): check that the job is running and served there"
            raise NotReadyError(msg) from error
        except (httpx.InvalidURL, UnicodeError) as error:
            msg = f"no request can be sent to {self._url}: {error}"
            raise RefusedError(msg) from error
        try:
            body = answer.json()
        except ValueError:
            body = None
        if answer.is_success and isinstance(body, dict):
            return body
        raise self._error(answer.status_code, body)

    def _error(self, status: int, body: Any) -> RechannelError:
        if not isinstance(body, dict) or not {"error", "message"} <= body.keys():
            msg = f"the server at {self._url} (status {status}) is not a served job"
            return RefusedError(msg)
        return _ERRORS.get(body["error"], RefusedError)(str(body["message"]))
