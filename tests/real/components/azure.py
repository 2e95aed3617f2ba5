"""Azurite, Microsoft's own emulator of Azure Blob Storage, on loopback."""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import urllib.error
import urllib.request
from pathlib import Path

from tests.real.components.building import built, node, run
from tests.real.components.server import ObjectServer

AZURITE = "3.35.0"
"""The last that runs on Node 20."""
ACCOUNT = "tests"
KEY = base64.b64encode(b"the key of an account that there is in tests alone").decode()
VERSION = "2021-08-06"


def azurite() -> Path:
    """Return its program, installed by npm at the first call."""

    def make(folder: Path) -> None:
        quiet = ["--no-audit", "--no-fund", "--ignore-scripts"]
        run([node()[1], "install", "--prefix", str(folder), *quiet, f"azurite@{AZURITE}"])

    place = built(f"azurite-{AZURITE}", make)
    return place / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


class Azure(ObjectServer):
    """A server with the container `state`."""

    scheme = "az"

    def environment(self, port: int | None = None) -> dict[str, str]:
        """Return what clients find the server by. port: of a proxy in front of it."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port or self.port}/{ACCOUNT}",
            "AZURE_ALLOW_HTTP": "true",
        }

    def command(self) -> list[str]:
        """Return what is run."""
        data = self._folder / "data"
        data.mkdir(exist_ok=True)
        at = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--location", str(data)]
        quiet = ["--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        return [node()[0], str(azurite()), *at, *quiet]

    def variables(self) -> dict[str, str]:
        """Return its environment variables, beside those of this process."""
        return {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}

    def start(self) -> None:
        """Start it, and make the container."""
        super().start()
        signed = f"/{ACCOUNT}/{ACCOUNT}/state\nrestype:container"
        date = email.utils.formatdate(usegmt=True)
        said = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{VERSION}\n{signed}"
        mac = hmac.new(base64.b64decode(KEY), said.encode(), hashlib.sha256)
        headers = {
            "x-ms-date": date,
            "x-ms-version": VERSION,
            "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(mac.digest()).decode()}",
            "Content-Length": "0",
        }
        url = f"http://127.0.0.1:{self.port}/{ACCOUNT}/state?restype=container"
        request = urllib.request.Request(url, method="PUT", headers=headers)
        try:
            urllib.request.urlopen(request, timeout=30).close()
        except urllib.error.HTTPError as error:
            if error.code != 409:  # it is there from the time before
                raise

    def vanish(self) -> None:
        """End it orderly: it writes what it knows of its blobs every few seconds, and at the end."""
        self.stop()
