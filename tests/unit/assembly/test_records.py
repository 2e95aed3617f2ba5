"""Records of renamed sources: what becomes of their copies if a start is refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rechannel.assembly import records
from rechannel.assembly.records import RenamedRecords
from rechannel.sources.input_files.seen import folder_of
from rechannel.testing import MemoryStore


@pytest.mark.parametrize(
    ("holder", "known", "stays"), [(None, (), False), ("another", (), True), (None, ("new",), True)]
)
def test_copies_go_unless_they_may_be_in_use(monkeypatch, holder, known, stays):
    store = MemoryStore()
    store.put(folder_of("old") + "1", b"seen")
    offsets = {"old": {}}
    monkeypatch.setattr(records, "read_only", lambda _: SimpleNamespace(offsets=offsets))
    monkeypatch.setattr(records, "read_lease", lambda _: holder)
    renamed = RenamedRecords(store=store, renamed={"old": "new"}, sources=["new"], begins=True)

    def refused():
        with renamed.copied():
            assert store.read(folder_of("new") + "1") == b"seen"
            offsets.update({name: {} for name in known})
            raise RuntimeError("refused")

    with pytest.raises(RuntimeError, match="refused"):
        refused()
    assert bool(list(store.list(folder_of("new")))) is stays
    assert list(store.list(folder_of("old")))
