"""A server that speaks the JSON protocol of Google Cloud Storage and half of the XML one, and what it lacks.

fake-gcs-server takes no PUT of the XML protocol, which `obstore` writes with. A proxy in front of it makes an upload
of the JSON protocol of each: of the same bytes, metadata and condition (`x-goog-if-generation-match` is called
`ifGenerationMatch` there). Everything else passes as it is. So these tests are of the client and of what is built on
it; they say nothing of Google's own servers.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.real.components.building import go_installed
from tests.real.components.proxy import Proxy
from tests.real.components.server import ObjectServer

FAKE = "v1.56.1"
_CONDITION = b"x-goog-if-generation-match"


def fake_gcs_server() -> Path:
    """Return the server, built from its source at the first call."""
    return go_installed("fake-gcs-server", "github.com/fsouza/fake-gcs-server", FAKE)


class Translator(Proxy):
    """Makes uploads of the JSON protocol of the XML protocol's PUTs."""

    def rewritten(self, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        """Return a PUT of an object as an upload."""
        lines = head.split(b"\r\n")
        method, path, version = lines[0].split(b" ")
        if method != b"PUT":
            return head, body
        _, bucket, name = path.split(b"/", 2)
        condition = b""
        kept = []
        for line in lines[1:]:
            field, _, value = line.partition(b":")
            if field.lower() == _CONDITION:
                condition = b"&ifGenerationMatch=" + value.strip()
            else:
                kept.append(line)
        to = b"/upload/storage/v1/b/" + bucket + b"/o?uploadType=media&name=" + name + condition
        return b"\r\n".join([b"POST " + to + b" " + version, *kept]), body

    def answered(self, method: str, begins: bytes, answer: bytes) -> tuple[bytes, bytes]:
        """Return an upload's answer with the object's entity tag where a PUT's has it."""
        if method != "PUT" or b" 200 " not in begins.split(b"\r\n", 1)[0]:
            return begins, answer
        tag = json.loads(answer)["etag"].encode()
        return begins[:-2] + b'ETag: "' + tag + b'"\r\n\r\n', answer


class GCS(ObjectServer):
    """A server with the bucket `state`, behind a translator."""

    scheme = "gs"

    def __init__(self, folder: Path) -> None:
        """folder: for objects and log."""
        super().__init__(folder)
        self._translator = Translator(self._own_port)
        self._translated = self._translator.start()

    @property
    def port(self) -> int:
        """Of the translator."""
        return self._translated

    @property
    def plain_port(self) -> int:
        """Of the server itself."""
        return self._own_port

    def environment(self, port: int | None = None) -> dict[str, str]:
        """Return what clients find the server by. port: of a proxy in front of it."""
        key = {
            "gcs_base_url": f"http://127.0.0.1:{port or self.port}",
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        return {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(key), "GOOGLE_ALLOW_HTTP": "true"}

    def command(self) -> list[str]:
        """Return what is run."""
        data = self._folder / "data"
        (data / "state").mkdir(parents=True, exist_ok=True)
        at = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(self._own_port)]
        at += ["-public-host", "127.0.0.1", "-log-level", "error"]
        kept = ["-backend", "filesystem", "-filesystem-root", str(data)]
        return [str(fake_gcs_server()), *at, *kept]

    def vanish(self) -> None:
        """End it orderly: it writes an object and what it knows of it in two steps."""
        self.stop()

    def close(self) -> None:
        """End it and the translator."""
        self.kill()
        self._translator.stop()
