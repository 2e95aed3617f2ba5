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
from uuid import uuid4

INCOMPATIBLE = "Schema being registered is incompatible with an earlier schema for subject"


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

    def posted(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Return status and body for a POST: a lookup, or a registration."""
        self.asked.append(f"POST {path}")
        if self.failing is not None:
            return self.failing
        found = re.fullmatch(r"/subjects/([^/]+)(/versions)?", urlsplit(path).path)
        if found is None:
            return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
        subject, new = unquote(found[1]), bool(found[2])
        schema = {
            "schema": body["schema"],
            "schemaType": body.get("schemaType", "AVRO"),
            "references": body.get("references") or [],
        }
        versions = self.subjects.get(subject, [])
        at = next((each for each in versions if _alike(self.by_id[each], schema)), None)
        if at is None and not new:
            code = 40403 if versions else 40401
            return 404, {"error_code": code, "message": "not found"}
        if at is None:
            missing = _lacks_default(self.by_id[versions[-1]], schema) if versions else None
            if missing:
                return 409, {
                    "error_code": 409,
                    "message": f"{INCOMPATIBLE} {subject!r}, details: {missing}",
                }
            at = self._add(subject, schema)
        version = self.subjects[subject].index(at) + 1
        return 200, {"subject": subject, "version": version, "id": at, **self.by_id[at]}

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


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    if one["schemaType"] == "AVRO" == other["schemaType"]:
        return bool(json.loads(one["schema"]) == json.loads(other["schema"]))
    return one == other


def _lacks_default(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """Return which field makes a schema of Avro unable to read what another one wrote."""
    if new["schemaType"] != "AVRO":
        return None
    known = {each["name"] for each in json.loads(old["schema"])["fields"]}
    for each in json.loads(new["schema"])["fields"]:
        if each["name"] not in known and "default" not in each:
            return f"READER_FIELD_MISSING_DEFAULT_VALUE, {each['name']}"
    return None


@contextmanager
def schema_registry() -> Iterator[SchemaRegistry]:
    """Run one on loopback, at an address that no other one has had: workers keep what a registry has said, and a port
    is soon used again.
    """
    of, root = SchemaRegistry(), f"/{uuid4().hex}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(*of.answer(self.path.removeprefix(root)))

        def _say(self, status: int, body: Any) -> None:
            text = body if isinstance(body, str) else json.dumps(body)
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"]))
            self._say(*of.posted(self.path.removeprefix(root), json.loads(text)))

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        of.url = f"http://127.0.0.1:{server.server_port}{root}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield of
        finally:
            server.shutdown()
            thread.join()
