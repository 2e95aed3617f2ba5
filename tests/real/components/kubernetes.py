"""A real API server of Kubernetes, with etcd; pods run as processes (`kubelet.py`).

The server checks every document and every right as in a cluster. There is no other part of a cluster: no scheduler, no
controllers (nobody makes pods of a StatefulSet), no images, no volumes and no network of pods.
"""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.real.components.building import built, go, go_environment, run
from tests.real.components.kafka import free_port
from tests.real.components.server import Server

MODULE = Path(__file__).parent / "go" / "kubernetes"
"""Versions of the server and of etcd, with a checksum of every source that they need."""
ADMIN = "token-of-the-administrator"
NAMESPACE = "default"
MERGE, JSON = "application/merge-patch+json", "application/json"
READY_S = 180.0

PATHS = {
    "Namespace": "/api/v1/namespaces",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Service": "/api/v1/namespaces/{}/services",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "SparkApplication": "/apis/sparkoperator.k8s.io/v1beta2/namespaces/{}/sparkapplications",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
}
"""Where documents of a kind are posted."""


def programs() -> Path:
    """Return the folder with `kube-apiserver` and `etcd`, built at the first call (9 minutes of a core)."""
    text = (MODULE / "go.mod").read_text()
    found = re.search(r"k8s\.io/kubernetes (v[\d.]+)", text)
    assert found is not None

    def make(folder: Path) -> None:
        environment = go_environment(GOFLAGS="-mod=readonly -p=2")
        named = f"-s -w -X k8s.io/component-base/version.gitVersion={found[1]}"
        for name, package in (
            ("etcd", "go.etcd.io/etcd/server/v3"),
            ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
        ):
            build = [go(), "build", "-o", str(folder / name), "-ldflags", named, package]
            run(build, environment, at=MODULE)

    return built(f"kubernetes-{found[1]}", make)


class RefusedByApiError(Exception):
    """The server did not take a request."""

    def __init__(self, code: int, said: str) -> None:
        """code: of HTTP. said: by the server."""
        super().__init__(f"{code}: {said}")
        self.code = code


class Api:
    """Requests of somebody to a server."""

    def __init__(self, url: str, authority: Path, token: str) -> None:
        """authority: certificate that the server's is signed with."""
        tls = ssl.create_default_context(cafile=str(authority))
        self._url, self._token = url, token
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
        )

    def ask(self, method: str, path: str, body: object = None, kind: str = JSON) -> Any:
        """Make a request. Raises RefusedByApiError."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            with self._opener.open(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            said = error.read().decode()
            with suppress(ValueError):
                said = json.loads(said)["message"]
            raise RefusedByApiError(error.code, said) from error

    def post(self, document: dict[str, Any], *, try_out: bool = False) -> Any:
        """Have a document created. try_out: everything but that (server-side dry run)."""
        path = PATHS[document["kind"]].format(NAMESPACE)
        # Strict: a field that the server does not know is an error.
        return self.ask("POST", f"{path}?fieldValidation=Strict{'&dryRun=All' * try_out}", document)

    def pods(self) -> dict[str, Any]:
        """Return all pods, by name."""
        found = self.ask("GET", PATHS["Pod"].format(NAMESPACE))["items"]
        return {pod["metadata"]["name"]: pod for pod in found}


class _Etcd(Server):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._peers = free_port()

    def command(self) -> list[str]:
        clients, peers = (f"http://127.0.0.1:{port}" for port in (self.port, self._peers))
        own = ["--listen-client-urls", clients, "--advertise-client-urls", clients]
        own += ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]
        own += ["--initial-cluster", f"default={peers}", "--log-level", "warn"]
        return [str(programs() / "etcd"), "--data-dir", "data", "--unsafe-no-fsync", *own]


class _ApiServer(Server):
    def __init__(self, folder: Path, etcd: int) -> None:
        super().__init__(folder)
        self._etcd = etcd

    def command(self) -> list[str]:
        key = self._folder / "sa.key"
        subprocess.run(
            ["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True
        )
        (self._folder / "tokens.csv").write_text(f"{ADMIN},admin,1,system:masters\n")
        given = {
            "etcd-servers": f"http://127.0.0.1:{self._etcd}",
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": str(self.port),
            "cert-dir": "certificates",
            "token-auth-file": "tokens.csv",
            "authorization-mode": "RBAC",
            "service-account-issuer": "https://rechannel.test",
            "service-account-key-file": "sa.key",
            "service-account-signing-key-file": "sa.key",
            "service-cluster-ip-range": "10.96.0.0/24",
            "endpoint-reconciler-type": "none",
            # There are no nodes.
            "disable-admission-plugins": "TaintNodesByCondition",
            "feature-gates": "WatchList=false",
        }
        return [str(programs() / "kube-apiserver"), *(f"--{k}={v}" for k, v in given.items())]


class Kubernetes:
    """The server, with the service account that pods have by default."""

    def __init__(self, folder: Path) -> None:
        """folder: for data and logs."""
        for name in ("etcd", "api"):
            (folder / name).mkdir()
        self._etcd = _Etcd(folder / "etcd")
        self._server = _ApiServer(folder / "api", self._etcd.port)
        self.url = f"https://127.0.0.1:{self._server.port}"
        self.authority = folder / "api" / "certificates" / "apiserver.crt"

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self._etcd.start()
        self._server.start()
        self.admin = Api(self.url, self.authority, ADMIN)
        deadline = time.monotonic() + READY_S
        while not self._ready():
            if time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"the API server is not ready after {READY_S} s")
            time.sleep(0.1)
        self.admin.post(account("default"))

    def stop(self) -> None:
        """End it."""
        self._server.stop()
        self._etcd.stop()

    def token(self, account: str) -> str:
        """Return a token with which a service account asks, as pods have them."""
        path = f"{PATHS['ServiceAccount'].format(NAMESPACE)}/{account}/token"
        made = self.admin.ask(
            "POST",
            path,
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
        )
        return str(made["status"]["token"])

    def _ready(self) -> bool:
        with suppress(OSError, RefusedByApiError):
            # Roles are there when the last hook has run.
            self.admin.ask("GET", "/version")
            roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin"
            self.admin.ask("GET", roles)
            self.admin.ask("GET", f"/api/v1/namespaces/{NAMESPACE}")
            return True
        return False


def account(name: str) -> dict[str, Any]:
    """Return a service account."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
