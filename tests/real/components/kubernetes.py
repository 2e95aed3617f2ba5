"""A real Kubernetes API server on etcd. Executors of Spark run as processes of this machine: see `kubelet.py`.

The server is built from its Go module: minutes of processor time, once. There are no images, no mounts and no network
of pods, and everything is allowed to everybody who has the token.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.real.components.jars import FOLDER
from tests.real.components.kafka import free_port

VERSION = "v1.34.4"
ETCD = "etcd-server"
TOKEN = "token-of-tests"
READY_S = 120.0
BUILD_S = 3_600.0


def installed() -> Path:
    """Return the folder with `kube-apiserver` and `etcd`; the first call builds and fetches them."""
    folder = FOLDER / f"kubernetes-{VERSION}"
    if folder.exists():
        return folder
    making = FOLDER / f".{folder.name}-{os.getpid()}"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    _build(making / "build", making / "kube-apiserver")
    _run(["apt-get", "download", "-q", ETCD], making)
    (package,) = making.glob("*.deb")
    _run(["dpkg", "-x", str(package), "etcd"], making)
    (making / "etcd" / "usr" / "bin" / "etcd").rename(making / "etcd-server")
    making.rename(folder)
    return folder


def _build(place: Path, target: Path) -> None:
    """Build the API server. Modules that lie in its own tree are taken from where they are published."""
    place.mkdir()
    module = place / "go.mod"
    module.write_text("module local/kubernetes\n")
    said = _run(["go", "mod", "download", "-json", f"k8s.io/kubernetes@{VERSION}"], place)
    own = Path(json.loads(said)["GoMod"]).read_text()
    staged = sorted(set(re.findall(r"(k8s\.io/[a-z-]+) => \./staging", own)))
    published = VERSION.replace("v1.", "v0.", 1)
    lines = ["module local/kubernetes", "go 1.24", f"require k8s.io/kubernetes {VERSION}"]
    module.write_text("\n".join([*lines, *(f"replace {s} => {s} {published}" for s in staged), ""]))
    main = "k8s.io/kubernetes/cmd/kube-apiserver"
    (place / "tools.go").write_text(f'//go:build tools\npackage tools\nimport _ "{main}"\n')
    _run(["go", "mod", "tidy"], place)
    flags = f"-s -w -X k8s.io/component-base/version.gitVersion={VERSION}"
    _run(["go", "build", "-p", "2", "-o", str(target), "-ldflags", flags, main], place)


def _run(command: list[str], place: Path) -> str:
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
    done = subprocess.run(
        command,
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Kubernetes:
    """An API server."""

    def __init__(self, folder: Path) -> None:
        """folder: for data, certificates and logs."""
        self._folder = folder
        self._port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._opener: urllib.request.OpenerDirector | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"https://127.0.0.1:{self._port}"

    @property
    def ca(self) -> Path:
        """The certificate that it shows."""
        return self._folder / "certs" / "apiserver.crt"

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        programs, place = installed(), self._folder
        (place / "certs").mkdir(parents=True)
        key = place / "certs" / "accounts.key"
        _run(["openssl", "genrsa", "-out", str(key), "2048"], place)
        (place / "certs" / "tokens.csv").write_text(f"{TOKEN},admin,1,system:masters\n")
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        etcd = [str(programs / "etcd-server"), "--data-dir", str(place / "etcd")]
        etcd += ["--listen-client-urls", client, "--advertise-client-urls", client]
        etcd += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        self._begin("etcd", [*etcd, "--initial-cluster", f"default={peer}"])
        server = [str(programs / "kube-apiserver"), "--etcd-servers", client]
        options = {
            "bind-address": "127.0.0.1",
            "secure-port": str(self._port),
            "cert-dir": str(place / "certs"),
            "service-account-issuer": "https://local",
            "service-account-key-file": str(key),
            "service-account-signing-key-file": str(key),
            "token-auth-file": str(place / "certs" / "tokens.csv"),
            "authorization-mode": "AlwaysAllow",
            "service-cluster-ip-range": "10.96.0.0/24",
            "disable-admission-plugins": "ServiceAccount,TaintNodesByCondition",
            "advertise-address": "127.0.0.1",
            "endpoint-reconciler-type": "none",
            "feature-gates": "WatchList=false",
        }
        self._begin("server", [*server, *(f"--{name}={value}" for name, value in options.items())])
        end = time.monotonic() + READY_S
        while not self._ready():
            if any(p.poll() is not None for p in self._processes) or time.monotonic() > end:
                logs = [log.read_text(errors="replace")[-2_000:] for log in place.glob("*.log")]
                self.stop()
                raise RuntimeError("the API server did not start:\n" + "\n".join(logs))
            time.sleep(0.2)

    def stop(self) -> None:
        """End it."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)
        self._processes.clear()

    def ask(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> tuple[int, Any]:
        """Make a request: status and answer. kind: of the body."""
        if self._opener is None:
            tls = ssl.create_default_context(cafile=str(self.ca))
            tls.check_hostname = False
            handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
            self._opener = urllib.request.build_opener(*handlers)
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with self._opener.open(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def _ready(self) -> bool:
        if not self.ca.exists():
            return False
        with suppress(OSError, ValueError):
            return self.ask("GET", "/api/v1/namespaces/default")[0] == 200
        return False

    def _begin(self, name: str, command: list[str]) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self._processes.append(process)
