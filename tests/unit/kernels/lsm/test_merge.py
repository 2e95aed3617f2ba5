"""Merging sorted runs: what stays, what goes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rechannel.kernels.lsm.merge import Rows, merge_rows, slices_of
from rechannel.model.hashing import hash_columns
from rechannel.model.hashspace import SPACE, Intervals
from rechannel.state.stores.memory import MemoryStore
from tests.support.runs import opened, write_run

EVERYTHING = Intervals.everything()


def nothing_dies(keys, state):
    return None


def parts_of(*runs_rows, where=EVERYTHING, clip=None):
    """Parts of runs, newest first."""
    store = MemoryStore()
    runs = [
        write_run(store, rows, seq=-age, clip=clip) for age, rows in enumerate(runs_rows) if rows
    ]
    return [part for run in opened(store, runs) for part in slices_of(run, where)]


def held(rows: Rows) -> dict[object, object]:
    gone = np.zeros(len(rows), dtype=bool) if rows.dropped is None else rows.dropped
    pairs = zip(rows.columns[0].to_pylist(), rows.columns[1].to_pylist(), gone, strict=True)
    return {key: None if dropped else value for key, value, dropped in pairs}


def test_the_newest_row_of_a_key_stays():
    merged = merge_rows(parts_of({"a": 1}, {"a": 2, "b": 3}), 1, nothing_dies, bottom=False)
    assert held(merged) == {"a": 1, "b": 3}
    assert (merged.hashes[1:] > merged.hashes[:-1]).all()
    assert merged.dropped is None


def test_a_tombstone_stays_while_something_older_may_hold_the_key():
    parts = parts_of({"a": None}, {"a": 2, "b": 3})
    assert held(merge_rows(parts, 1, nothing_dies, bottom=False)) == {"a": None, "b": 3}


def test_at_the_bottom_tombstones_go():
    parts = parts_of({"a": None}, {"a": 2, "b": 3})
    merged = merge_rows(parts, 1, nothing_dies, bottom=True)
    assert held(merged) == {"b": 3}
    assert merged.dropped is None


def test_a_tombstone_below_a_newer_row_is_nothing():
    merged = merge_rows(parts_of({"a": 1}, {"a": None}), 1, nothing_dies, bottom=False)
    assert held(merged) == {"a": 1}
    assert merged.dropped is None


def test_at_the_bottom_rows_whose_time_has_passed_go():
    def live(keys, state):
        return state[0].to_numpy() > 2

    parts = parts_of({"a": 1, "b": 5}, {"a": 9, "c": 4})
    assert held(merge_rows(parts, 1, live, bottom=True)) == {"b": 5, "c": 4}
    assert held(merge_rows(parts, 1, live, bottom=False)) == {"a": 1, "b": 5, "c": 4}


def test_rows_that_are_written_once_go_with_their_tombstones_and_when_their_time_has_passed():
    def live(keys, state):
        return state[0].to_numpy() > 2

    parts = parts_of({"a": None, "b": 1}, {"a": 9, "c": 4}, {"d": 2})
    merged = merge_rows(parts, 1, live, bottom=False, once=True)
    assert held(merged) == {"c": 4}
    # What it hides may be in an older run that is not merged now.
    lonely = merge_rows(parts_of({"e": None}, {"c": 4}), 1, nothing_dies, bottom=False, once=True)
    assert held(lonely) == {"c": 4, "e": None}


def test_only_hashes_inside_clip_and_place_are_taken():
    names = [f"k{i}" for i in range(40)]
    rows = {name: i for i, name in enumerate(names)}
    clip, where = Intervals.of([(0, SPACE // 2)]), Intervals.of([(SPACE // 4, SPACE)])
    parts = parts_of(rows, where=where, clip=clip)
    got = set(held(merge_rows(parts, 1, nothing_dies, bottom=True)))
    hashes = hash_columns([pa.array(names)]).tolist()
    inside = {n for n, h in zip(names, hashes, strict=True) if SPACE // 4 <= h < SPACE // 2}
    assert got == inside
    assert inside


def test_everything_may_go():
    merged = merge_rows(parts_of({"a": None}), 1, nothing_dies, bottom=True)
    assert len(merged) == 0
