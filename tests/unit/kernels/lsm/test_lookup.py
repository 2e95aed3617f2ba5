"""Point look-ups in runs: newest first, inside the clip, keys compared where hashes are shared."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rechannel.errors import DamagedStateError
from rechannel.kernels.lsm import lookup
from rechannel.kernels.lsm.lookup import find, gather
from rechannel.model.hashing import hash_columns
from rechannel.model.hashspace import SPACE, HashArray, Intervals
from rechannel.state.stores.memory import MemoryStore
from tests.support.runs import STATE, opened, weak, write_run


def asked(*keys: str | None) -> tuple[HashArray, list[pa.Array]]:
    """Needles as tasks have them: ascending by hash."""
    column = pa.array(keys, pa.string())
    hashes = hash_columns([column])
    order = np.argsort(hashes, kind="stable")
    return hashes[order], [column.take(pa.array(order))]


def look_up(store, runs, *keys):
    """Number of every key that has state."""
    hashes, columns = asked(*keys)
    state, found = gather(find(opened(store, runs), hashes, columns), len(hashes), STATE, 1)
    numbers = state[0].to_pylist()
    return {k: n for k, n, f in zip(columns[0].to_pylist(), numbers, found, strict=True) if f}


def test_the_newest_run_answers():
    store = MemoryStore()
    runs = [write_run(store, {"a": 1, "b": 2}, seq=1), write_run(store, {"a": 3}, seq=2)]
    assert look_up(store, runs, "a", "b", "c") == {"a": 3, "b": 2}


def test_a_tombstone_hides_what_is_older():
    store = MemoryStore()
    runs = [write_run(store, {"a": 1, "b": 2}, seq=1), write_run(store, {"a": None}, seq=2)]
    assert look_up(store, runs, "a", "b") == {"b": 2}


def test_a_run_does_not_count_outside_of_its_clip():
    store = MemoryStore()
    at = int(hash_columns([pa.array(["a"])])[0])
    elsewhere = Intervals.of([(0, at), (at + 1, SPACE)])
    runs = [
        write_run(store, {"a": 1}, seq=1),
        write_run(store, {"a": 3, "b": 4}, seq=2, clip=elsewhere),
    ]
    assert look_up(store, runs, "a", "b") == {"a": 1, "b": 4}


def test_no_runs_find_nothing():
    assert look_up(MemoryStore(), [], "a") == {}


def test_no_needles_find_nothing():
    store = MemoryStore()
    assert look_up(store, [write_run(store, {"a": 1}, seq=1)]) == {}


def test_keys_that_share_a_hash_are_table_key(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lookup, "hash_is_key", lambda _: False)
    store = MemoryStore()
    keys = "abcdefghij"
    runs = [
        write_run(store, dict.fromkeys(keys, 1), seq=1, hashing=weak),
        write_run(store, {"c": 7, "x": 8}, seq=2, hashing=weak),
    ]
    column = pa.array([*keys, "y"])
    hashes = weak([column])
    order = np.argsort(hashes, kind="stable")
    needles = [column.take(pa.array(order))]
    state, found = gather(find(opened(store, runs), hashes[order], needles), 11, STATE, 1)
    by_key = dict(zip(needles[0].to_pylist(), state[0].to_pylist(), strict=True))
    assert dict(zip(needles[0].to_pylist(), found, strict=True)).pop("y") == np.False_
    assert {k: n for k, n in by_key.items() if k != "y"} == {**dict.fromkeys(keys, 1), "c": 7}


def test_nulls_in_state_stay_nulls_and_other_columns_do_not_care():
    store = MemoryStore()
    runs = [write_run(store, {"a": 3, "b": 4}, seq=1)]
    hashes, columns = asked("a", "b")
    state, _ = gather(find(opened(store, runs), hashes, columns), 2, STATE, 1)
    by_key = dict(zip(columns[0].to_pylist(), state[1].to_pylist(), strict=True))
    assert by_key == {"a": None, "b": "s4"}


def test_damage_is_found_before_it_is_used():
    store = MemoryStore()
    run = write_run(store, {"a": 1, "b": 2}, seq=1)
    hashes, columns = asked("a", "b")
    data = bytearray(store.read(run.segment))
    place = bytes(data).index(b"s1") if b"s1" in data else bytes(data).index(b"s2")
    data[place] ^= 1
    store.put(run.segment, bytes(data))
    with pytest.raises(DamagedStateError, match="does not match its checksum"):
        find(opened(store, [run]), hashes, columns)


def test_many_needles_in_a_small_run_and_few_in_a_large_one():
    """Small runs are searched at once, large ones through a sieve: the answer is the same."""
    store = MemoryStore()
    names = [f"key{i}" for i in range(500)]
    large = write_run(store, {name: i for i, name in enumerate(names)}, seq=1)
    small = write_run(store, {"key7": 7000}, seq=2)
    assert look_up(store, [large, small], "key3", "none") == {"key3": 3}
    everything = look_up(store, [large, small], *names)
    assert everything == {**{name: i for i, name in enumerate(names)}, "key7": 7000}
