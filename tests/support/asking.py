"""Asking a served job, with the token that it wants."""

from __future__ import annotations

from typing import Any

import httpx

from rechannel.serve.server import Server


def bearer(server: Server) -> dict[str, str]:
    """The header that every request bears."""
    return {"Authorization": f"Bearer {server.token}"}


def client_of(server: Server, timeout: float = 60) -> httpx.Client:
    """A client that bears the token."""
    return httpx.Client(
        base_url=server.url, headers=bearer(server), trust_env=False, timeout=timeout
    )


def get(server: Server, path: str, **more: Any) -> httpx.Response:
    """One request, on a connection of its own."""
    return httpx.get(server.url + path, headers=bearer(server), trust_env=False, timeout=60, **more)
