"""Segments that are valid in themselves and are others than were written; caches that others could write to."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from rechannel.errors import DamagedStateError, RefusedError
from rechannel.state.cache import host_cache as hostcache
from rechannel.state.cache.host_cache import VARIABLE, cache_of, check_cache
from rechannel.state.segments import segment
from rechannel.state.segments.segment import (
    SegmentMeta,
    open_segment,
    verify_segment,
    write_segment,
)
from rechannel.state.stores import shared
from rechannel.state.stores.local import Durability, LocalStore
from rechannel.state.stores.locations import open_store
from rechannel.state.stores.memory import MemoryStore
from rechannel.state.stores.shared import SharedStore

META = SegmentMeta(operator="op", timestep=1, task=0, attempt="x", logic=1, schema="s")
KEY = "segments/op/00000000000000000001-00000-x.arrow"


def written(store, balance=200):
    """A segment of two rows, and what a journal has of it."""
    columns = pa.record_batch({"k": [1, 2], "balance": pa.array([100, balance], pa.int64())})
    return write_segment(store, KEY, np.array([5, 9], np.uint64), columns, META)


def balances(store, made):
    return open_segment(store, KEY, made.digest, made.size).column(1).to_pylist()


def cached(store):
    """The one file of the cache."""
    (path,) = (store.backing.root.parent / "cache").glob("*.part")
    return path


def restart():
    """Forget what this process has open, as a new one has."""
    segment._segments._entries.clear()
    shared._files._entries.clear()
    hostcache._told.clear()


@pytest.fixture
def store(tmp_path):
    restart()
    backing = LocalStore(tmp_path / "state", Durability.PROCESS)
    return SharedStore(backing, str(tmp_path / "cache"))


def forged():
    """A segment of the same size that says something else, and whose checksums are right."""
    other = MemoryStore()
    written(other, 999_999)
    return bytes(other.read(KEY))


def forge(store):
    """Put it where the cache has the right one."""
    content, new = cached(store).read_bytes(), forged()
    assert len(new) == store.size(KEY)
    cached(store).write_bytes(new + content[len(new) :])


def test_the_digest_is_that_of_the_content():
    one, other = MemoryStore(), MemoryStore()
    assert written(one) == written(other) != written(MemoryStore(), 201)
    assert open_segment(one, KEY).digest == written(one).digest
    assert len(written(one).digest) == 32


def test_a_forged_segment_of_a_cache_is_fetched_anew(store):
    made = written(store)
    assert balances(store, made) == [100, 200]
    forge(store)
    assert (
        cached(store).read_bytes().startswith(forged())
    )  # valid in itself: nothing else would tell
    restart()
    assert balances(store, made) == [100, 200]
    assert cached(store).read_bytes().startswith(bytes(store.backing.read(KEY)[:16]))
    assert not cached(store).read_bytes().startswith(forged())


def test_one_that_is_open_already_is_compared_as_well(tmp_path):
    restart()
    local = LocalStore(tmp_path / "state", Durability.PROCESS)
    made = written(local)
    local.put(KEY, forged())
    assert open_segment(local, KEY).column(1).to_pylist() == [100, 999_999]
    with pytest.raises(DamagedStateError, match="not the one that was written"):
        balances(local, made)


def test_a_forged_segment_of_the_store_itself_is_damage(tmp_path):
    restart()
    local = LocalStore(tmp_path / "state", Durability.PROCESS)
    made = written(local)
    local.put(KEY, forged())
    for one in (local, SharedStore(local, str(tmp_path / "cache"))):
        with pytest.raises(DamagedStateError, match=r"not the one that was written.*copy"):
            balances(one, made)
    with pytest.raises(DamagedStateError, match="not the one that was written"):
        verify_segment(local, KEY, made.digest)
    assert verify_segment(local, KEY).column(1).to_pylist() == [100, 999_999]


def test_a_cache_is_made_for_this_user_alone(store, tmp_path):
    written(store)
    (part,) = (tmp_path / "cache").glob("*.part")
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    assert part.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o1777])
def test_a_cache_that_others_can_write_to_is_not_used(store, tmp_path, mode, caplog):
    made = written(store)
    forge(store)
    (tmp_path / "cache").chmod(mode)
    there = set((tmp_path / "cache").iterdir())
    restart()
    assert balances(store, made) == [100, 200]
    assert balances(replace(store, cache_bytes=1 << 30), made) == [100, 200]
    assert caplog.text.count("no cache is used on this host") == 1
    with pytest.raises(RefusedError, match="can be written by other users"):
        open_store(
            tmp_path / "state",
            durability=Durability.PROCESS,
            cache=str(tmp_path / "cache"),
            cache_bytes=1 << 30,
        )
    written(store)
    assert set((tmp_path / "cache").iterdir()) == there


def test_a_cache_that_others_can_read_is_closed_to_them(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o755)
    check_cache(str(cache))
    assert cache.stat().st_mode & 0o777 == 0o700


def test_a_cache_of_somebody_else_is_refused(tmp_path, monkeypatch):
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(RefusedError, match=r"belongs to another user.*Settings\(cache="):
        open_store("memory://", durability=Durability.PROCESS, cache=None, cache_bytes=1 << 30)


def test_the_default_is_a_directory_per_user_of_the_process_that_reads(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = open_store("memory://", durability=Durability.PROCESS, cache=None, cache_bytes=1 << 30)
    assert cache_of(store.cache, 1).directory == f"{tmp_path}/rechannel-cache-{os.getuid()}"
    monkeypatch.setattr("os.getuid", lambda: 4711)
    assert cache_of(store.cache, 1).directory == f"{tmp_path}/rechannel-cache-4711"
