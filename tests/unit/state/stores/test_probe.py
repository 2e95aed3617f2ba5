"""A store that does not keep its promises is refused."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

import pytest

import rechannel as rc
from rechannel.errors import RefusedError
from rechannel.job import InProcess
from rechannel.state.store import FileFacts
from rechannel.state.stores.local import LocalStore
from rechannel.state.stores.objects import ObjectStore
from rechannel.state.stores.probe import check_promises

pytest.importorskip("obstore")


@pytest.fixture(params=["memory", "local"])
def store(request, tmp_path):
    if request.param == "local":
        return LocalStore(tmp_path)
    return ObjectStore(f"memory://{tmp_path}")


def test_a_store_that_keeps_them_is_left_as_it_was(store):
    store.put("there", b"x")
    check_promises(store, "here")
    assert [*store.list("")] == ["there"]


@dataclass
class Broken:
    """Does what the other store does, but for one call."""

    inner: Any
    calls: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return self.calls.get(name) or getattr(self.inner, name)


def two_steps(inner):
    """Look whether there is an object, and then write one."""
    looked = threading.Barrier(2)

    def create(key, data):
        if key in inner.list(key):
            return False
        try:
            looked.wait(0.05)
        except threading.BrokenBarrierError:
            time.sleep(0)
        inner.put(key, data)
        return True

    return create


def always(inner):
    def create(key, data):
        inner.put(key, data)
        return True

    return create


def other_bytes(inner):
    return lambda key, data: inner.create(key, data[::-1])


def late(inner):
    return lambda prefix: iter([*inner.list(prefix)][1:])


def one_version(inner):
    return lambda key: FileFacts(inner.size(key), "same")


def whole(inner):
    return lambda key, spans: [bytes(inner.read(key)) for _ in spans]


@pytest.mark.parametrize(
    ("call", "broken", "words"),
    [
        ("create", two_steps, r"it let \d of 8 writers create the same object"),
        ("create", always, "it let 8 of 8 writers"),
        ("create", other_bytes, "has not the bytes of the writer"),
        ("list", late, "it lists 7 of 8 objects that were just written"),
        ("delete", lambda _: lambda _key: None, "still has an object that was just removed"),
        ("facts", one_version, "gives two contents of an object one version"),
        ("fetch", whole, "does not read parts of an object"),
        ("put", lambda _: lambda _key, _data: None, "does not read what was written last"),
    ],
)
def test_what_a_store_does_not_do_is_named(store, call, broken, words):
    other = Broken(store, {call: broken(store)})
    with pytest.raises(
        RefusedError, match=f"state cannot be kept at here: .*{words}.*If-None-Match"
    ):
        check_promises(other, "here")
    if call != "delete":
        assert not [*store.list("")], "nothing is left behind"


def test_a_job_does_not_start_on_such_a_bucket(tmp_path, monkeypatch):
    monkeypatch.setattr(ObjectStore, "create", lambda self, key, data: self.put(key, data) is None)
    flow = rc.read().memory("k BIGINT", name="rows").write.memory("out")
    job = rc.Job("j", flow, state=f"memory://{tmp_path}")
    with pytest.raises(RefusedError, match=r"state cannot be kept at memory://"):
        job.start(in_process=InProcess())
    assert not [*ObjectStore(f"memory://{tmp_path}").list("")]
