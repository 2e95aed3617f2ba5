"""Keys of object stores that cannot be found are named before anything waits for them."""

from __future__ import annotations

import pytest

import rechannel as rc
from rechannel.errors import SetUpError
from rechannel.job import InProcess, Job
from rechannel.state import opening
from rechannel.state.credentials import missing
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
    monkeypatch.setattr(opening, "machine_has_keys", no)
    flow = rc.read().memory(script("x bigint"), name="in").write.memory("out")
    with pytest.raises(
        SetUpError, match="no credentials for s3://nowhere/jobs: set AWS_ACCESS_KEY"
    ):
        Job("j", flow, state="s3://nowhere/jobs").start(in_process=InProcess())
