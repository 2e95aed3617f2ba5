"""Where a served job leaves its generated token, so that commands of the same user find it by the
URL.

One file per address, such as `127.0.0.1-8520.token`, in the user's runtime folder; it contains
only the token.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from urllib.parse import urlsplit

from rechannel.state.owned import owned_folder, read_secret, runtime_folder, write_secret

WILDCARDS = ("0.0.0.0", "::")
_LOCALHOST = ("127.0.0.1", "::1")


def token_file(host: str, port: int) -> Path:
    """Return the file of the server that is bound to an address."""
    return runtime_folder() / f"{ipaddress.ip_address(host.partition('%')[0])}-{port}.token"


def leave_token(host: str, port: int, token: str) -> Path:
    """Write the token file. Raises RefusedError if other users can change the runtime folder,
    OSError.

    A server that is bound to all addresses has the port of loopback, too: what another one has left
    there is of one that was killed.
    """
    path = token_file(host, port)
    owned_folder(path.parent)
    write_secret(path, token)
    for all_of, loopback in zip(WILDCARDS, _LOCALHOST, strict=True):
        if path == token_file(all_of, port):
            token_file(loopback, port).unlink(missing_ok=True)
    return path


def take_token_away(path: Path, token: str) -> None:
    """Delete the file, unless another server has the address by now."""
    if read_secret(path) == token:
        path.unlink(missing_ok=True)


def token_left_for(url: str) -> str | None:
    """Return the token of the server at a URL of this machine, if this user started it; None
    otherwise.

    A server that is bound to every address is found by loopback only: another address may belong
    to another machine, which must not see the token.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        hosts = _LOCALHOST if host.rstrip(".") == "localhost" else (host,)
        addresses = [ipaddress.ip_address(one) for one in hosts]
    except ValueError:
        return None
    bound = [str(address) for address in addresses if str(address) not in WILDCARDS]
    if any(address.is_loopback for address in addresses):
        bound += WILDCARDS
    found = (read_secret(token_file(one, port)) for one in bound)
    return next((token for token in found if token), None)
