"""On a real Kubernetes API server: it takes the manifests, and a job on it survives a rescale and a lost executor.

Executors are processes of this machine: there are no images, no mounts and no network of pods. They are started by the
entry point of the image.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pyspark
import pytest
import yaml

from tests.real.components.jars import ROOT
from tests.real.components.kubelet import Kubelet
from tests.real.components.kubernetes import TOKEN, Kubernetes
from tests.real.disturbed import disturbed
from tests.support.jvms import SHORT_LIVED

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in ("go", "apt-get", "openssl")),
        reason="needs go to build the API server, apt-get and dpkg to fetch etcd, and openssl",
    ),
]

BACKEND = "KubernetesExecutorBackend"
PLACES = {
    "v1": "/api/v1",
    "apps/v1": "/apis/apps/v1",
    "rbac.authorization.k8s.io/v1": "/apis/rbac.authorization.k8s.io/v1",
}
PLURALS = {
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
    "StatefulSet": "statefulsets",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Kubernetes(tmp_path_factory.mktemp("kubernetes"))
    made.start()
    yield made
    made.stop()


@pytest.fixture
def kubelet(server, tmp_path):
    paths = [str(ROOT / "src"), str(ROOT), *(each for each in sys.path if "site-packages" in each)]
    archives = Path(pyspark.__file__).parent / "python" / "lib"
    paths += map(str, archives.glob("*.zip"))
    environment = {"PYTHONPATH": os.pathsep.join(paths), "PYSPARK_PYTHON": sys.executable}
    made = Kubelet(server, tmp_path / "pods", environment)
    made.start()
    yield made
    made.stop()


def tried(server, one):
    """What the server would make of a manifest, field by field."""
    place = f"{PLACES[one['apiVersion']]}/namespaces/default/{PLURALS[one['kind']]}"
    return server.ask("POST", f"{place}?dryRun=All&fieldValidation=Strict", one)


def manifests():
    found = []
    for path in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml")):
        found += [one for one in yaml.safe_load_all(path.read_text()) if one]
    return found


def test_the_server_takes_the_manifests(server):
    found = manifests()
    assert {one["kind"] for one in found} == set(PLURALS)
    for one in found:
        status, answer = tried(server, one)
        assert status == 201, answer


def test_the_server_refuses_what_is_wrong(server):
    (stateful,) = (one for one in manifests() if one["kind"] == "StatefulSet")
    stateful["spec"]["template"]["spec"]["terminationGraceSeconds"] = 5
    status, answer = tried(server, stateful)
    assert status == 400
    assert "terminationGraceSeconds" in answer["message"]


def test_a_rescale_and_a_killed_executor_leave_the_result_exact(server, kubelet, tmp_path):
    conf = {
        "spark.ui.enabled": "false",
        "spark.log.level": "WARN",
        "spark.kubernetes.authenticate.caCertFile": str(server.ca),
        "spark.kubernetes.authenticate.oauthToken": TOKEN,
        "spark.kubernetes.container.image": "none",
        "spark.kubernetes.executor.podNamePrefix": "sums",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.instances": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "600m",
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
    }
    settings = [f"--conf={key}={value}" for key, value in conf.items()]
    options = ["--master", f"k8s://{server.url}", *settings]
    disturbed(tmp_path, options, {"PYSPARK_PYTHON": None}, BACKEND)
    logs = list((tmp_path / "pods").glob("sums-exec-*"))
    assert len(logs) >= 3  # two, and the one that took the place of the lost one
