"""Whether credentials for an object store can be found: without them, every request waits for
minutes and then fails.

Credentials come from the environment of the driver and of every worker, or from the machine
itself: in the large clouds, a service at one fixed address hands them out. Of files, only Google's
application-default credentials are read; `~/.aws/credentials` and others are not.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from rechannel.errors import RechannelError

_GOOGLE_DEFAULT = (".config", "gcloud", "application_default_credentials.json")
_MACHINE = ("169.254.169.254", 80)
_MACHINE_SECONDS = 1.0
_MACHINE_NAMES = (_MACHINE[0], "metadata.google.internal")

_KEYS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "s3": (
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE",),
        ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI",),
        ("AWS_SKIP_SIGNATURE",),
    ),
    "gs": (
        ("GOOGLE_APPLICATION_CREDENTIALS",),
        ("GOOGLE_SERVICE_ACCOUNT",),
        ("GOOGLE_SERVICE_ACCOUNT_PATH",),
        ("GOOGLE_SERVICE_ACCOUNT_KEY",),
        ("GOOGLE_SKIP_SIGNATURE",),
    ),
    "az": (
        ("AZURE_STORAGE_ACCOUNT_KEY",),
        ("AZURE_STORAGE_ACCESS_KEY",),
        ("AZURE_STORAGE_SAS_KEY",),
        ("AZURE_STORAGE_SAS_TOKEN",),
        ("AZURE_STORAGE_CLIENT_ID", "AZURE_STORAGE_CLIENT_SECRET"),
        ("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"),
        ("AZURE_FEDERATED_TOKEN_FILE",),
        ("AZURE_STORAGE_TOKEN",),
        ("AZURE_SKIP_SIGNATURE",),
        ("AZURE_STORAGE_USE_EMULATOR",),
        ("IDENTITY_ENDPOINT",),
    ),
}
"""Environment variables that form a complete set of credentials, by kind of store."""

_KINDS = {"s3a": "s3", "adl": "az", "azure": "az", "abfs": "az", "abfss": "az"}


def missing(url: str, environment: Mapping[str, str], on_machine: Callable[[], bool]) -> str | None:
    """Return a sentence with the missing credentials of a store; None if some can be found, or
    none are needed.

    on_machine: whether the machine hands out credentials; called only if the environment has none.
    """
    scheme = url.partition("://")[0]
    if scheme == "gs" and Path(environment.get("HOME", ""), *_GOOGLE_DEFAULT).is_file():
        return None
    sets = _KEYS.get(_KINDS.get(scheme, scheme), ())
    if not sets or any(all(environment.get(name) for name in names) for names in sets):
        return None
    halves = [names for names in sets if any(environment.get(name) for name in names)]
    if not halves and on_machine():
        return None
    names = (halves or [sets[0]])[0]
    absent = " and ".join(name for name in names if not environment.get(name))
    return (
        f"no credentials for {url}: set {absent} in the environment of the driver and of all workers (files such"
        " as ~/.aws/credentials are not read)"
    )


def machine_hands_out(request: Callable[[], object]) -> bool:
    """Return whether the machine hands out credentials, as a first request to the store shows.

    The service may exist and have none for this machine: the request then fails with the service's
    answer.
    """
    if not machine_answers():
        return False
    try:
        request()
    except RechannelError as error:
        return not any(name in str(error) for name in _MACHINE_NAMES)
    return True


def machine_answers() -> bool:
    """Return whether this machine runs where a service may hand out credentials."""
    try:
        with socket.create_connection(_MACHINE, _MACHINE_SECONDS):
            return True
    except OSError:
        return False
