"""Who may talk to a server: its address, its names, and the token. Pure, except for one name look-up.

- Every request carries the token, also on loopback, because other users of the machine can connect there. If no token
  is given, the server makes one and writes it where processes of the same user find it (`state/tokens.py`).
- A browser on this machine runs pages of any site. They cannot know the token. On loopback with a token that was made
  here, the server also rejects them before it looks at the token: the Host must be loopback or the host that the
  server was bound to (another name that resolves to 127.0.0.1 is rejected), and the Origin must be the same.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from rechannel.errors import RefusedError

PORT = 8520
"""Default port."""


def split_address(text: str) -> tuple[str, int]:
    """Split `HOST:PORT`, `[::1]:PORT` or `PORT` into host and port. Raises RefusedError."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535:
        msg = f"{text!r} is not an address: give HOST:PORT, such as 127.0.0.1:{PORT}"
        raise RefusedError(msg)
    return host, int(port)


def listen(host: str, port: int) -> socket.socket:
    """Open a socket that listens there. Raises RefusedError: no such host, port in use."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        msg = f"host {host!r} does not belong to this machine ({error}); serve at 127.0.0.1"
        raise RefusedError(msg) from error
    family, _, _, _, where = found[0]
    try:
        listener = socket.create_server(where[:2], family=family, backlog=128)
        # A response is sent in two parts, of which the second one would wait for an answer to the first, for 40 ms.
        # asyncio sees to that for sockets of its own only; connections inherit the option.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        msg = (
            f"cannot listen on port {port} of {host!r} ({error.strerror}); port=0 takes a free one"
        )
        raise RefusedError(msg) from error


def is_loopback(host: str) -> bool:
    """Whether a host, by name or address, is the loopback of this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


def check_token(token: str) -> None:
    """Raise RefusedError for a token that a header cannot hold."""
    if not token.isascii() or not token.isprintable() or token != token.strip() or not token:
        msg = "a token is one word of printable ASCII, such as secrets.token_urlsafe() makes"
        raise RefusedError(msg)


def host_of(header: str) -> str:
    """The host in a Host header, without its port; empty if it is invalid."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def names_itself(header: str, bound: str) -> bool:
    """Whether a Host header names loopback, or the host that the server was bound to."""
    host = host_of(header)
    return bool(host) and (is_loopback(host) or host == bound.lower().strip("[]"))


def is_same_origin(origin: str, host: str) -> bool:
    """Whether a page of an origin belongs to the server that it calls by this Host header."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and parts.netloc.lower() == host.lower()


def bears(authorizations: Sequence[str], token: str) -> bool:
    """Whether a request carries the token, compared in constant time."""
    if len(authorizations) != 1:
        return False
    scheme, _, given = authorizations[0].partition(" ")
    right = hmac.compare_digest(given.strip().encode("latin-1", "replace"), token.encode())
    return right and scheme.lower() == "bearer"
