"""Asking a served job, with the token that it wants."""

from __future__ import annotations

import ssl
from typing import Any

import httpx

from rechannel.serve.server import Server

PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""What clients of `http://` share: each would otherwise read the certificates of the machine."""


def bearer(server: Server) -> dict[str, str]:
    """The header that every request bears."""
    return {"Authorization": f"Bearer {server.token}"}


def client_of(server: Server, timeout: float = 60) -> httpx.Client:
    """A client that bears the token."""
    return httpx.Client(
        base_url=server.url, headers=bearer(server), trust_env=False, timeout=timeout, verify=PLAIN
    )


def get(server: Server, path: str, **more: Any) -> httpx.Response:
    """One request, on a connection of its own."""
    with client_of(server) as client:
        return client.get(path, **more)
