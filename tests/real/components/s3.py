"""Real servers that speak the protocol of S3, on loopback: versitygw, and s3s-fs, which creates in two steps."""

from __future__ import annotations

from pathlib import Path

from tests.real.components.building import built, go_installed, run
from tests.real.components.server import ObjectServer

VERSITYGW = "v1.8.0"
S3S = "0.14.1"
KEY, SECRET = "test", "testsecret"


def versitygw() -> Path:
    """Return the server, built from its source at the first call."""
    return go_installed("versitygw", "github.com/versity/versitygw/cmd/versitygw", VERSITYGW)


def s3s() -> Path:
    """Return the server, built by Cargo at the first call, with the versions of its lock file."""

    def make(folder: Path) -> None:
        command = ["cargo", "install", "s3s-fs", "--version", S3S, "--locked"]
        run([*command, "--features", "binary", "--root", str(folder)])

    return built(f"s3s-{S3S}", make) / "bin" / "s3s-fs"


class S3(ObjectServer):
    """A server with the bucket `state`. Its objects outlive a kill."""

    scheme = "s3"

    def __init__(self, folder: Path, server: str = "versitygw") -> None:
        """Keep objects in a folder, which the server has for itself. server: "versitygw" or "s3s"."""
        super().__init__(folder)
        self._server = server

    def environment(self, port: int | None = None, host: str = "127.0.0.1") -> dict[str, str]:
        """Return what clients find the server by. port, host: of a proxy in front of it."""
        return {
            "AWS_ENDPOINT_URL": f"http://{host}:{port or self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    def command(self) -> list[str]:
        """Return what is run."""
        data = self._folder / "data"
        (data / "state").mkdir(parents=True, exist_ok=True)
        if self._server == "versitygw":
            at = ["--port", f"127.0.0.1:{self.port}", "--region", "us-east-1"]
            return [str(versitygw()), *at, "posix", str(data)]
        at = ["--host", "127.0.0.1", "--port", str(self.port)]
        return [str(s3s()), *at, "--access-key", KEY, "--secret-key", SECRET, str(data)]

    def variables(self) -> dict[str, str]:
        """Return its environment variables, beside those of this process."""
        return {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
