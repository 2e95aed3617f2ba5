"""A schema registry that has what the public client asks for, in memory."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass
class SchemaRegistry:
    """The schemas, and what was asked."""

    by_id: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    failing: tuple[int, str] | None = None
    """Status and body of every answer, in place of the true one."""
    url: str = ""

    def register(
        self,
        subject: str,
        schema: Any,
        kind: str = "AVRO",
        references: tuple[tuple[str, str, int], ...] = (),
    ) -> int:
        """Add a version of a subject: a schema of Avro, or a serialised file of Protobuf. Returns its id."""
        text = base64.b64encode(schema).decode() if kind == "PROTOBUF" else json.dumps(schema)
        named = [
            dict(zip(("name", "subject", "version"), each, strict=True)) for each in references
        ]
        return self._add(subject, {"schema": text, "schemaType": kind, "references": named})

    def _add(self, subject: str, body: dict[str, Any]) -> int:
        known = [each for each, of in self.by_id.items() if of == body]
        found = known[0] if known else len(self.by_id) + 1
        self.by_id[found] = body
        versions = self.subjects.setdefault(subject, [])
        if found not in versions:
            versions.append(found)
        return found

    def answer(self, path: str) -> tuple[int, Any]:
        """Return status and body for a GET."""
        self.asked.append(path)
        if self.failing is not None:
            return self.failing
        split = urlsplit(path)
        if found := re.fullmatch(r"/schemas/ids/(\d+)", split.path):
            schema = self.by_id.get(int(found[1]))
            if schema is None:
                return 404, {"error_code": 40403, "message": "Schema not found"}
            formats = parse_qs(split.query).get("format", [""])
            if schema["schemaType"] == "PROTOBUF" and formats != ["serialized"]:
                return 200, {**schema, "schema": 'syntax = "proto3";'}
            return 200, schema
        if found := re.fullmatch(r"/subjects/([^/]+)/versions/(\d+|latest)", split.path):
            subject = unquote(found[1])
            versions = self.subjects.get(subject, [])
            version = len(versions) if found[2] == "latest" else int(found[2])
            if not 0 < version <= len(versions):
                return 404, {"error_code": 40402, "message": "Version not found"}
            at = versions[version - 1]
            return 200, {"subject": subject, "version": version, "id": at, **self.by_id[at]}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}


@contextmanager
def schema_registry() -> Iterator[SchemaRegistry]:
    """Run one on loopback."""
    of = SchemaRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = of.answer(self.path)
            text = body if isinstance(body, str) else json.dumps(body)
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        of.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield of
        finally:
            server.shutdown()
            thread.join()
