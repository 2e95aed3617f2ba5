"""Which store a state directory or URL means."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import RefusedError
from rechannel.state.stores.local import Durability, LocalStore, directory_of
from rechannel.state.stores.locations import open_store
from rechannel.state.stores.memory import MemoryStore
from rechannel.state.stores.objects import ObjectStore
from rechannel.state.stores.shared import SharedStore
from rechannel.testing import Harness, script
from rechannel.testing.throttled import ThrottledStore


def opened(state, cache=None):
    return open_store(state, durability=Durability.PROCESS, cache=cache, cache_bytes=1 << 30)


def test_a_directory_needs_no_cache_and_nothing_is_copied(tmp_path):
    assert opened(tmp_path / "state") == LocalStore(tmp_path / "state", Durability.PROCESS)
    assert opened(f"file://{tmp_path}/a%20b") == LocalStore(tmp_path / "a b", Durability.PROCESS)


def test_with_a_cache_it_is_shared(tmp_path):
    local = LocalStore(tmp_path / "state", Durability.PROCESS)
    assert opened(tmp_path / "state", "/cache") == SharedStore(local, "/cache", 1 << 30)


def test_a_bucket_always_has_a_cache():
    store = opened("s3://bucket/job/")
    assert isinstance(store, SharedStore)
    assert store.backing == ObjectStore("s3://bucket/job")
    assert Path(store.cache).is_absolute()
    assert opened("s3://bucket/job", "/cache").cache == "/cache"


def test_other_urls_are_refused():
    with pytest.raises(
        RefusedError,
        match=r"state 'ftp://x' cannot be opened: it must be a directory, file:// or one of s3://",
    ):
        opened("ftp://x")


def test_the_directory_behind_a_store(tmp_path):
    local = LocalStore(tmp_path)
    throttled = ThrottledStore(local, bandwidth=1.0, line="line")
    assert directory_of(SharedStore(throttled, "/cache")) == directory_of(local) == local
    assert directory_of(MemoryStore()) is None
    assert directory_of(opened("memory://x")) is None


def test_settings_name_the_cache(tmp_path):
    settings = rc.Settings(cache=str(tmp_path / "cache"), cache_bytes=1 << 20)
    assert settings.cache_bytes == 1 << 20
    with pytest.raises(RefusedError, match="cache_bytes"):
        rc.Settings(cache_bytes=10)


def test_a_job_runs_and_goes_on_with_its_state_in_a_bucket(tmp_path):
    store = opened(f"memory://{tmp_path}", str(tmp_path / "cache"))
    stream = rc.read().memory(script("k long", [[{"k": i} for i in range(50)]] * 3), name="in")
    counted = stream.key_by("k").aggregate(n=agg.count(), name="counts")
    harness = Harness(counted.write.memory("out", name="out"), store=store)
    harness.start().step()
    harness.start().run()
    table = harness.state("counts").sort_by("k")
    assert table.equals(pa.table({"k": range(50), "n": [3] * 50}, schema=table.schema))
    assert list((tmp_path / "cache").glob("*.part"))
