"""A running job over HTTP: watched, planned for and changed from outside. Needs the extra `serve`."""

from __future__ import annotations

from rechannel.serve.server import Server, serve

__all__ = ["Server", "serve"]
