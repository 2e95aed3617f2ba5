"""deploy/ against published schemas: of Kubernetes, strict, and of the Spark operator's custom resource."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.real.components.making import FOLDER, ROOT

pytestmark = pytest.mark.real

PACKAGE = "kubernetes-validate==1.37.0"
"""It has the JSON schemas that are made of the OpenAPI documents of Kubernetes."""
VERSIONS = ("1.30", "1.34", "1.37")
EXTRACT = ROOT / "tests" / "unit" / "deploy" / "sparkapplication.json"

CHECK = """
import json, sys
import jsonschema, kubernetes_validate
wrong = []
for document, version, schema in json.load(sys.stdin):
    try:
        if schema is None:
            kubernetes_validate.validate(document, version, strict=True)
        else:
            jsonschema.Draft202012Validator(schema).validate(document)
    except Exception as error:
        wrong.append(str(error).partition(chr(10))[0])
    else:
        wrong.append(None)
print(json.dumps(wrong))
"""


@pytest.fixture(scope="module")
def errors():
    """What is wrong with each of (document, version of Kubernetes, schema); None for nothing."""
    place = FOLDER / PACKAGE.replace("==", "-")
    if not place.exists():
        making = FOLDER / f".{place.name}-{os.getpid()}"
        shutil.rmtree(making, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(making), PACKAGE]
        subprocess.run(command, check=True, timeout=300)
        making.rename(place)

    def call(asked):
        done = subprocess.run(
            [sys.executable, "-c", CHECK],
            input=json.dumps(asked),
            env={**os.environ, "PYTHONPATH": str(place)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return call


def documents(folder):
    found = []
    for path in sorted(Path(ROOT, "deploy", folder).glob("*.yaml")):
        found += [one for one in yaml.safe_load_all(path.read_text()) if one]
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_takes_the_manifests(errors, version):
    found = documents("kubernetes")
    kinds = {one["kind"] for one in found}
    assert {"StatefulSet", "Service", "Role", "RoleBinding", "ServiceAccount"} <= kinds
    assert errors([(one, version, None) for one in found]) == [None] * len(found)


def test_the_operator_takes_its_resource(errors):
    schema = json.loads(EXTRACT.read_text())
    (one,) = documents("spark-operator")
    assert errors([(one, None, schema)]) == [None]


def test_what_is_wrong_would_be_found(errors):
    (stateful,) = (one for one in documents("kubernetes") if one["kind"] == "StatefulSet")
    stateful["spec"]["template"]["spec"]["terminationGraceSeconds"] = 5
    schema = json.loads(EXTRACT.read_text())
    (application,) = documents("spark-operator")
    application["spec"]["restartPolicy"]["type"] = "Sometimes"
    (other,) = documents("spark-operator")
    other["spec"]["driver"]["memoryBound"] = "1g"
    first, second, third = errors(
        [(stateful, VERSIONS[-1], None), (application, None, schema), (other, None, schema)]
    )
    assert "terminationGraceSeconds" in first
    assert "Sometimes" in second
    assert "memoryBound" in third
