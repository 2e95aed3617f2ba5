"""A running job over HTTP: watch it, plan and request changes. Needs the extra `serve`."""

from __future__ import annotations

from rechannel.serve.server import Server, serve

__all__ = ["Server", "serve"]
