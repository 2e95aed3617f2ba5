"""Look-ups and merges of random runs against a dict: newest run first, clips and tombstones heeded."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.kernels.columnar import sorting
from rechannel.kernels.columnar.sorting import sort_index, take
from rechannel.kernels.lsm import lookup
from rechannel.kernels.lsm.lookup import find, gather
from rechannel.kernels.lsm.merge import merge_rows, slices_of
from rechannel.model.hashing import hash_columns
from rechannel.model.hashspace import SPACE, Intervals
from rechannel.state.run import Run
from rechannel.state.stores.memory import MemoryStore
from tests.support.runs import STATE, Hash, opened, state_of, weak, write_run

NAMES = st.sampled_from([None, "", *"abcdefghij"])
ROWS = st.dictionaries(NAMES, st.one_of(st.none(), st.integers(0, 99)), max_size=11)
EIGHTHS = st.frozensets(st.integers(0, 7), min_size=1)


def clip_of(eighths: frozenset[int]) -> Intervals:
    return Intervals.of((i * SPACE // 8, (i + 1) * SPACE // 8) for i in eighths)


def lies_in(key: str | None, where: Intervals, hashing: Hash) -> bool:
    at = int(hashing([pa.array([key], pa.string())])[0])
    return any(lo <= at < hi for lo, hi in where)


class Case:
    """Runs on a store and what each key's newest row says."""

    def __init__(self, data: st.DataObject) -> None:
        self.hashing = data.draw(st.sampled_from([hash_columns, weak]))
        self.store = MemoryStore()
        self.runs: list[Run] = []
        self.newest: dict[str | None, int | None] = {}
        layers = data.draw(st.lists(st.tuples(ROWS, EIGHTHS), max_size=5))
        for seq, (rows, eighths) in enumerate(layers):
            clip = clip_of(eighths)
            if rows:
                run = write_run(self.store, rows, seq=seq, clip=clip, hashing=self.hashing)
                self.runs.append(run)
            seen = {k: v for k, v in rows.items() if lies_in(k, clip, self.hashing)}
            self.newest.update(seen)


@pytest.fixture(autouse=True, scope="module")
def _hashes_are_no_keys():
    """The weak hash breaks the proof that equal hashes are equal keys."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "hash_is_key", lambda _: False)
        patch.setattr(sorting, "hash_is_key", lambda _: False)
        yield


@given(st.data())
def test_every_key_gets_its_newest_row(data: st.DataObject):
    case = Case(data)
    keys = pa.array(data.draw(st.lists(NAMES, unique=True, min_size=1)), pa.string())
    hashes = case.hashing([keys])
    order = sort_index(hashes)
    (asked,) = take([keys], order)
    hits = find(opened(case.store, case.runs), hashes[order], [asked])
    columns, found = gather(hits, len(asked), STATE, 1)
    for i, key in enumerate(asked.to_pylist()):
        expected = case.newest.get(key)
        assert found[i] == (expected is not None)
        if expected is not None:
            assert tuple(column[i].as_py() for column in columns) == state_of(expected)


@given(st.data())
def test_a_merge_keeps_the_newest_row_of_every_key(data: st.DataObject):
    case = Case(data)
    where = clip_of(data.draw(EIGHTHS))
    bottom = data.draw(st.booleans())
    parts = [p for run in opened(case.store, case.runs) for p in slices_of(run, where)]
    if not parts:
        return
    merged = merge_rows(parts, 1, lambda *_: None, bottom=bottom)
    assert (merged.hashes[1:] >= merged.hashes[:-1]).all()
    gone = merged.dropped if merged.dropped is not None else np.zeros(len(merged), dtype=bool)
    keys = merged.columns[0].to_pylist()
    values = [None if g else v for g, v in zip(gone, merged.columns[1].to_pylist(), strict=True)]
    expected = {k: v for k, v in case.newest.items() if lies_in(k, where, case.hashing)}
    if bottom:
        expected = {key: value for key, value in expected.items() if value is not None}
    assert dict(zip(keys, values, strict=True)) == expected
    assert len(set(keys)) == len(keys)
