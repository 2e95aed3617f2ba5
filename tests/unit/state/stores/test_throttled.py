"""The slow line: bytes take their time, and all who name a line share it."""

from __future__ import annotations

import pytest

from rechannel.errors import RefusedError
from rechannel.state.stores.local import Durability, LocalStore
from rechannel.testing import throttled
from rechannel.testing.throttled import ThrottledStore, reserve


@pytest.fixture
def line(tmp_path):
    return str(tmp_path / "line")


def test_who_comes_later_waits_for_who_came_before(line):
    assert reserve(line, 100.0, 2.0) == 102.0
    assert reserve(line, 100.5, 1.0) == 103.0
    assert reserve(line, 110.0, 1.0) == 111.0


def test_every_read_byte_is_paid_for_and_no_written_one(tmp_path, line, monkeypatch):
    slept = []
    monkeypatch.setattr(throttled.time, "sleep", slept.append)
    monkeypatch.setattr(throttled.time, "monotonic", lambda: 50.0)
    local = LocalStore(tmp_path / "state", Durability.PROCESS)
    one = ThrottledStore(local, bandwidth=1000.0, line=line, latency=0.25)
    other = ThrottledStore(local, bandwidth=1000.0, line=line)
    one.put("a.arrow", bytes(3000))
    assert one.create("b.json", b"{}")
    assert slept == []
    one.read("a.arrow")
    other.fetch("a.arrow", [(0, 500), (1000, 1500)])
    other.read("a.arrow", 2500, 9999)
    assert slept == [3.25, 4.0, 4.5]


def test_hosts_of_one_machine_have_lines_of_their_own(tmp_path, monkeypatch):
    local = LocalStore(tmp_path / "state", Durability.PROCESS)
    local.put("a.arrow", b"abc")
    store = ThrottledStore(local, bandwidth=1e9, line=f"{tmp_path}/$HOST_NUMBER.line")
    for number in "12":
        monkeypatch.setenv("HOST_NUMBER", number)
        store.read("a.arrow")
    assert sorted(path.name for path in tmp_path.glob("*.line")) == ["1.line", "2.line"]


@pytest.mark.parametrize(("bandwidth", "latency"), [(0, 0), (-1, 0), (1, -1)])
def test_a_line_that_nothing_passes_is_refused(tmp_path, line, bandwidth, latency):
    with pytest.raises(RefusedError, match="bandwidth must be > 0 bytes/s"):
        ThrottledStore(LocalStore(tmp_path), bandwidth=bandwidth, line=line, latency=latency)
