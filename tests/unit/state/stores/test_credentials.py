"""Keys of object stores that cannot be found are named before anything waits for them."""

from __future__ import annotations

import pytest

import rechannel as rc
from rechannel.errors import MissingFileError, SetUpError, StorageError
from rechannel.job import InProcess, Job
from rechannel.state.stores import credentials, objects
from rechannel.state.stores.credentials import missing
from rechannel.testing import script


def no() -> bool:
    return False


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("s3://bucket/jobs", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("s3a://bucket/jobs", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("gs://bucket/jobs", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("abfss://box@account/jobs", "AZURE_STORAGE_ACCOUNT_KEY"),
    ],
)
def test_missing_keys_are_named(url, names):
    said = missing(url, {}, no)
    assert said is not None
    assert f"no credentials for {url}: set {names} in the environment" in said
    assert missing(url, {}, lambda: True) is None


@pytest.mark.parametrize(
    "environment",
    [
        {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"},
        {"AWS_WEB_IDENTITY_TOKEN_FILE": "/token"},
        {"AWS_SKIP_SIGNATURE": "true"},
    ],
)
def test_keys_of_any_kind_do(environment):
    assert missing("s3://bucket/jobs", environment, no) is None


NONE_HERE = "Error performing PUT http://169.254.169.254/latest/api/token: 404 Not Found"


@pytest.mark.parametrize(
    ("failure", "has"),
    [
        (None, True),
        (MissingFileError("s3://bucket/jobs/lease.json is missing"), True),
        (StorageError("cannot read s3://bucket/jobs/lease.json: the bucket does not exist"), True),
        (StorageError(f"cannot read s3://bucket/jobs/lease.json: {NONE_HERE}"), False),
    ],
)
def test_a_machine_whose_service_has_no_keys_hands_none_out(monkeypatch, failure, has):
    monkeypatch.setattr(credentials, "machine_answers", lambda: True)
    asked = []

    def request():
        asked.append(1)
        if failure is not None:
            raise failure

    assert credentials.machine_hands_out(request) is has
    assert asked


def test_a_machine_without_such_a_service_is_not_asked_for_more(monkeypatch):
    monkeypatch.setattr(credentials, "machine_answers", no)
    assert not credentials.machine_hands_out(
        lambda: pytest.fail("a request would wait for minutes")
    )


def test_half_a_key_is_told_whatever_the_machine_has():
    said = missing("s3://bucket/jobs", {"AWS_ACCESS_KEY_ID": "a"}, lambda: True)
    assert said is not None
    assert "set AWS_SECRET_ACCESS_KEY in" in said


@pytest.mark.parametrize("url", ["memory://x", "/state", "file:///state"])
def test_stores_without_keys_need_none(url):
    assert missing(url, {}, no) is None


def test_a_job_is_refused_before_anything_waits(monkeypatch):
    pytest.importorskip("obstore")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    monkeypatch.setattr(objects, "machine_hands_out", lambda request: False)
    flow = rc.read().memory(script("x bigint"), name="in").write.memory("out")
    with pytest.raises(
        SetUpError, match="no credentials for s3://nowhere/jobs: set AWS_ACCESS_KEY"
    ):
        Job("j", flow, state="s3://nowhere/jobs").start(in_process=InProcess())


def test_an_account_that_is_not_named_is_asked_for(monkeypatch):
    pytest.importorskip("obstore")
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    said = objects.ObjectStore("az://box/jobs").lacks()
    assert said is not None
    assert "az://box/jobs cannot be opened: " in said
    assert "Set what is missing (for Azure, AZURE_STORAGE_ACCOUNT_NAME)" in said
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    assert objects.ObjectStore("az://box/jobs").lacks() is None


def test_the_default_credentials_of_google_do(tmp_path):
    environment = {"HOME": str(tmp_path)}
    assert missing("gs://b/x", environment, lambda: False) is not None
    file = tmp_path / ".config" / "gcloud" / "application_default_credentials.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    assert missing("gs://b/x", environment, lambda: False) is None
    assert missing("s3://b/x", environment, lambda: False) is not None
