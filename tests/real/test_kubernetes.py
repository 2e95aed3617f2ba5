"""On a real API server of Kubernetes: the manifests, the rights in them, and a job whose executors come, go and die."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark
import pytest
import yaml

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.spark.cluster import spark_cluster
from rechannel.telemetry.reading import read_events
from rechannel.telemetry.task_finished import TaskFinished
from tests.real.components.kubelet import Kubelet
from tests.real.components.kubernetes import Api, Kubernetes, RefusedByApiError
from tests.real.components.making import ROOT
from tests.spark.children import environment
from tests.spark.programs import PATIENCE, journal_of, session, tell, until

pytestmark = [pytest.mark.real, pytest.mark.slow]

KEYS, RATE = 1_000, 2_000
EXTRACT = ROOT / "tests" / "unit" / "deploy" / "sparkapplication.json"


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory):
    server = Kubernetes(tmp_path_factory.mktemp("kubernetes"))
    server.start()
    for one in documents("kubernetes/access.yaml"):
        server.admin.post(one)
    yield server
    server.stop()


def documents(name: str) -> list[dict[str, Any]]:
    """What a file, or each file of a folder, of `deploy/` has."""
    path = ROOT / "deploy" / name
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    return [one for file in files for one in yaml.safe_load_all(file.read_text()) if one]


# Documents ------------------------------------------------------------------------------------------


def test_the_server_takes_the_manifests(kubernetes):
    found = documents("kubernetes")
    assert {"StatefulSet", "Service", "Role", "RoleBinding", "ServiceAccount"} <= {
        one["kind"] for one in found
    }
    for one in found:
        if one in documents("kubernetes/access.yaml"):
            one["metadata"]["name"] += "-again"  # these are there
        made = kubernetes.admin.post(one, try_out=True)
        assert made["metadata"]["uid"]
    path = "/apis/apps/v1/namespaces/default/statefulsets/orders"
    with pytest.raises(RefusedByApiError, match=r'statefulsets\.apps "orders" not found'):
        kubernetes.admin.ask("GET", path)


def test_a_wrong_manifest_is_refused(kubernetes):
    (stateful,) = (one for one in documents("kubernetes") if one["kind"] == "StatefulSet")
    pod = stateful["spec"]["template"]["spec"]
    pod["terminationGraceSeconds"] = 5
    with pytest.raises(
        RefusedByApiError, match=r'unknown field "spec\.template\.spec\.terminationGraceSeconds"'
    ):
        kubernetes.admin.post(stateful, try_out=True)
    del pod["terminationGraceSeconds"]
    stateful["spec"]["selector"]["matchLabels"] = {"app.kubernetes.io/name": "other"}
    with pytest.raises(RefusedByApiError, match="`selector` does not match template `labels`"):
        kubernetes.admin.post(stateful, try_out=True)


def test_the_server_takes_the_resource_of_the_operator(kubernetes):
    """Its definition is an extract of the operator's: what the resource uses of it."""
    schema = json.loads(EXTRACT.read_text())
    version = {"name": "v1beta2", "served": True, "storage": True}
    kubernetes.admin.post(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": "sparkapplications.sparkoperator.k8s.io",
                # The group belongs to Kubernetes, which asks for a review of its interfaces.
                "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
            },
            "spec": {
                "group": "sparkoperator.k8s.io",
                "scope": "Namespaced",
                "names": {"kind": "SparkApplication", "plural": "sparkapplications"},
                "versions": [{**version, "schema": {"openAPIV3Schema": structural(schema)}}],
            },
        }
    )
    (application,) = documents("spark-operator")
    until(lambda: served(kubernetes.admin), "the server knows the definition")
    assert kubernetes.admin.post(application, try_out=True)["metadata"]["uid"]
    application["spec"]["driver"]["memoryBound"] = "1g"
    with pytest.raises(RefusedByApiError, match=r'unknown field "spec\.driver\.memoryBound"'):
        kubernetes.admin.post(application, try_out=True)


def structural(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema as a definition may have it: what it does not describe is kept as it comes."""
    without = {"$comment", "$schema"}
    if isinstance(schema.get("additionalProperties"), bool):
        without.add("additionalProperties")  # fields that have no name in it are unknown anyway
    found = {key: value for key, value in schema.items() if key not in without}
    if "type" not in found and "x-kubernetes-int-or-string" not in found:
        found["x-kubernetes-preserve-unknown-fields"] = True
    if "properties" in found:
        found["properties"] = {k: structural(v) for k, v in found["properties"].items()}
    for part in ("items", "additionalProperties"):
        if part in found:
            found[part] = structural(found[part])
    return found


def served(api: Api) -> bool:
    try:
        api.ask("GET", "/apis/sparkoperator.k8s.io/v1beta2/namespaces/default/sparkapplications")
    except RefusedByApiError as error:
        if error.code not in {404, 429}:  # not known, or not ready
            raise
        return False
    return True


def test_without_the_role_an_account_sees_no_pods(kubernetes):
    def pods(account: str) -> dict[str, Any]:
        found = Api(kubernetes.url, kubernetes.authority, kubernetes.token(account)).pods()
        assert isinstance(found, dict)
        return found

    pods("orders")
    with pytest.raises(RefusedByApiError, match='"system:serviceaccount:default:default" cannot'):
        pods("default")


# A job ----------------------------------------------------------------------------------------------


def numbers(start: int, stop: int) -> pa.RecordBatch:
    """Rows as a function of their number."""
    number = np.arange(start, stop, dtype=np.int64)
    return pa.record_batch({"k": number * 7919 % KEYS, "v": number})


def with_executors(cluster: Any, count: int) -> set[str]:
    """Wait for a number of executors; their ids."""
    found = until(
        lambda: len(now := cluster.executors()) == count and now, f"there are {count} executors"
    )
    return {each.id for each in found}


def drive(place: str, master: str, authority: str, token: str) -> dict[str, Any]:
    """Run a job on two executors, one, and two; put a task on one; lose that one; what became of it."""
    spark = session(
        place,
        master,
        spark__executor__instances="2",
        spark__executor__cores="1",
        spark__executor__memory="512m",
        spark__executorEnv__PYTHONPATH=environment()["PYTHONPATH"],
        spark__driver__host="127.0.0.1",
        spark__kubernetes__container__image="none",
        spark__kubernetes__authenticate__caCertFile=authority,
        spark__kubernetes__authenticate__oauthToken=token,
    )
    cluster = spark_cluster(spark)
    with_executors(cluster, 2)
    rows = rc.read(spark).generator(
        numbers, schema="k BIGINT, v BIGINT", rows_per_second=RATE, name="numbers"
    )
    totals = rows.key_by("k").aggregate(count=agg.count(), sum=agg.sum("v"), name="totals")
    settings = rc.Settings(tasks=2, interval_ms=250)
    job = rc.Job("totals", totals, state=f"{place}/state", settings=settings).start()

    def goes_on() -> list[int]:
        """Numbers of some timesteps that begin after now."""
        now = job.status.timestep or 0
        until(lambda: (job.status.timestep or 0) >= now + 6 or not job.is_active, "it goes on")
        assert job.is_active, job.exception()
        return [now + 3, now + 6]

    def changed(change: Any) -> None:
        ended = job.reconfigure(change).wait(PATIENCE)
        assert ended.phase == "done", ended.summary()

    goes_on()
    changed(rc.changes.executors(1))
    one = with_executors(cluster, 1)
    goes_on()
    changed(rc.changes.executors(2))
    (new,) = with_executors(cluster, 2) - one
    for task in (0, 1):
        changed(rc.changes.place("totals", task, new))
    tell(placed=[new, goes_on()])
    until(lambda: new not in {each.id for each in cluster.executors()}, "Spark loses the executor")
    known = spark.sparkContext._jsc.sc().statusStore().executorSummary(new)
    tell(lost=[known.isActive(), known.removeReason().get()])
    with_executors(cluster, 2)
    changed(rc.changes.rescale("totals", tasks=4))
    goes_on()
    job.stop(PATIENCE)
    read = int(job.committed_offset("numbers")["rows"])
    state = job.state("totals").selectExpr("k", "count", "sum")
    batch = spark.range(read).selectExpr(f"id * 7919 % {KEYS} AS k", "id AS v")
    plain = batch.groupBy("k").agg({"*": "count", "v": "sum"}).toDF("k", "count", "sum")
    same = sorted(map(tuple, state.collect())) == sorted(map(tuple, plain.collect()))
    spark.stop()
    return {"rows": read, "same": same}


def test_executors_come_go_and_die_and_totals_are_those_of_a_batch(kubernetes, child, tmp_path):
    image = {**environment(), "SPARK_HOME": str(Path(pyspark.__file__).parent)}
    kubelet = Kubelet(kubernetes.admin, tmp_path / "pods", 2, image)
    kubelet.start()
    try:
        driver = child(
            drive,
            place=str(tmp_path),
            master=f"k8s://{kubernetes.url}",
            authority=str(kubernetes.authority),
            token=kubernetes.token("orders"),
        )
        executor, (first, last) = driver.hear("placed")
        (victim,) = (
            name
            for name, pod in kubernetes.admin.pods().items()
            if pod["metadata"]["labels"]["spark-exec-id"] == executor
        )
        path = f"/api/v1/namespaces/default/pods/{victim}?gracePeriodSeconds=0"
        kubernetes.admin.ask("DELETE", path)
        alive, reason = driver.hear("lost")
        result = driver.result(PATIENCE)
    finally:
        kubelet.stop()
    assert not alive
    assert "pod" in reason or "lost" in reason, reason
    assert victim not in kubernetes.admin.pods()
    # Two at first, one for the one that was given back, one for the one that died.
    assert len(kubelet.started) == 4, kubelet.failure
    assert ran(tmp_path / "state", first, last) == {0: {executor}, 1: {executor}}
    assert result["rows"] > 6 * PER_WINDOW
    assert result["same"]
    assert journal_of(tmp_path / "state").epoch == 1, "the driver was the same throughout"


PER_WINDOW = RATE // 4


def ran(state: Path, first: int, last: int) -> dict[int, set[str]]:
    """Executors that tasks of the operator ran on in timesteps [first, last)."""
    found: dict[int, set[str]] = {}
    for event in read_events(state / "telemetry"):
        of_operator = isinstance(event, TaskFinished) and event.operator == "totals"
        if of_operator and first <= event.timestep < last and event.executor is not None:
            found.setdefault(event.task, set()).add(event.executor)
    return found
