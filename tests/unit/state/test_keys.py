from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.state.keys import (
    check_key,
    entry_key,
    number_of,
    segment_key,
    sink_buffer_key,
    snapshot_key,
    timestep_of,
)


def test_numbers_are_padded_and_found_again():
    assert entry_key(42) == "journal/00000000000000000042.json"
    assert snapshot_key(42) == "snapshots/00000000000000000042.json"
    assert number_of(entry_key(10**19)) == 10**19
    assert number_of("journal/.tmp-3-4") is None
    assert number_of("journal/42.json") is None
    assert number_of("lease.json") is None


@given(st.text(min_size=1), st.integers(0, 10**15), st.integers(0, 99_999), st.text())
def test_any_name_makes_a_legal_key_that_knows_its_timestep(operator, timestep, task, attempt):
    operator = operator.encode("utf-8", "replace").decode()
    attempt = attempt.encode("utf-8", "replace").decode()
    for key_of, room in [(segment_key, "segments"), (sink_buffer_key, "outbox")]:
        key = key_of(operator=operator, timestep=timestep, task=task, attempt=attempt)
        assert check_key(key) == key
        assert key.split("/")[0] == room
        assert key.count("/") == 2
        assert timestep_of(key) == timestep


def test_different_operators_have_different_folders():
    names = ["a", "A", "a/b", "a%2Fb", ".", "..", "%2E", "%2E."]
    keys = {segment_key(operator=n, timestep=0, task=0, attempt="0") for n in names}
    assert len(keys) == len(names)


@pytest.mark.parametrize("key", ["journal/00000000000000000042.json", "segments/a/x.arrow", "a"])
def test_other_files_belong_to_no_timestep(key):
    assert timestep_of(key) is None
