"""The log of files seen, against a list."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.errors import DamagedStateError, MissingFileError, NewerFormatError, StorageError
from rechannel.sources.input_files import seen
from rechannel.sources.input_files.seen import SeenFile, SeenLog, choose, folder_of
from rechannel.state.sealed import seal
from rechannel.state.stores.memory import MemoryStore


def files(*names: str) -> list[SeenFile]:
    return [SeenFile(path=name, modified_ms=len(name), size=1) for name in names]


def journalled(offset: dict) -> dict:
    return json.loads(json.dumps(offset))


def opened(store: MemoryStore, offset: dict) -> SeenLog:
    log = SeenLog(store, "in")
    log.go_to(journalled(offset))
    return log


def pages(store: MemoryStore) -> list[str]:
    return list(store.list("sources/in/pages/"))


def test_chooses_the_oldest_first_and_breaks_ties_by_path():
    found = [
        SeenFile(path=path, modified_ms=time, size=0)
        for path, time in (("b", 2), ("c", 1), ("a", 2), ("d", 3))
    ]
    assert [file.path for file in choose(found, None)] == ["c", "a", "b", "d"]
    assert [file.path for file in choose(found, 2)] == ["c", "a"]


def test_numbers_files_and_finds_them_again_after_a_restart():
    store = MemoryStore()
    log = opened(store, SeenLog.start())
    first = log.append(files("a", "b"))
    second = log.append(files("c"))
    assert (first["files"], second["files"]) == (2, 3)
    again = opened(store, second)
    assert again.between(first, second) == files("c")
    assert again.between(SeenLog.start(), second) == files("a", "b", "c")
    assert "a" in again
    assert "c" in again
    assert "d" not in again


def test_a_page_that_was_never_journalled_is_ignored():
    store = MemoryStore()
    log = opened(store, SeenLog.start())
    kept = log.append(files("a"))
    log.append(files("b", "c"))
    after_crash = opened(store, kept)
    assert "b" not in after_crash
    end = after_crash.append(files("c"))
    assert after_crash.between(SeenLog.start(), end) == files("a", "c")


def test_going_back_within_a_process_forgets_what_was_appended():
    log = opened(MemoryStore(), SeenLog.start())
    kept = log.append(files("a"))
    log.append(files("b"))
    log.go_to(kept)
    assert "b" not in log
    assert "a" in log


def test_a_driver_that_was_replaced_cannot_change_what_the_new_one_reads():
    store = MemoryStore()
    old = opened(store, SeenLog.start())
    common = old.append(files("a"))
    new = opened(store, common)
    end = new.append(files("b", "c"))
    # The old driver wakes up, looks again, and picks other files under the same numbers.
    old.append(files("x", "y"))
    old.committed(common)
    assert opened(store, end).between(common, end) == files("b", "c")


def test_two_drivers_that_choose_the_same_files_write_the_same_page():
    store = MemoryStore()
    left = opened(store, SeenLog.start()).append(files("a", "b"))
    right = opened(store, SeenLog.start()).append(files("a", "b"))
    assert left == right
    assert len(pages(store)) == 1


def test_replaced_pages_stay_until_the_offset_behind_them_is_committed():
    store = MemoryStore()
    log = opened(store, SeenLog.start())
    first = log.append(files("a"))
    second = log.append(files("b"))
    assert opened(store, first).between(SeenLog.start(), first) == files("a")
    log.committed(first)
    assert len(pages(store)) == 2
    log.committed(second)
    assert len(pages(store)) == 1
    assert opened(store, second).between(first, second) == files("b")


def test_what_an_earlier_driver_has_left_goes_after_the_first_commit():
    store = MemoryStore()
    log = opened(store, SeenLog.start())
    for name in "abc":  # while there is a savepoint, nobody says what is committed
        last = log.append(files(name))
    assert len(pages(store)) > len(kept := {page.name for page, _ in log._chain(last)})
    again = opened(store, last)
    again.committed(last)
    assert {page.split("/")[-1].removesuffix(".json") for page in pages(store)} == kept
    assert again.between(SeenLog.start(), last) == files("a", "b", "c")


def test_what_is_in_flight_or_cannot_be_read_is_no_leftover():
    store = MemoryStore()
    log = opened(store, SeenLog.start())
    first = log.append(files("a"))
    store.put("sources/in/pages/00000000000000000000-damaged.json", b"{}")
    another = opened(store, first).append(files("x"))
    log.append(files("b"))
    log.committed(first)
    assert len(pages(store)) == 4
    assert opened(store, another).between(first, another) == files("x")


def test_a_page_that_could_not_be_deleted_is_deleted_after_a_later_commit():
    class Away(MemoryStore):
        away = 1

        def delete(self, key: str) -> None:
            if self.away:
                self.away -= 1
                raise StorageError("slow down")
            super().delete(key)

    store = Away()
    log = opened(store, SeenLog.start())
    log.append(files("a"))
    second = log.append(files("b"))
    with pytest.raises(StorageError, match="slow down"):
        log.committed(second)
    assert (store.away, len(pages(store))) == (0, 2)
    log.committed(second)
    assert len(pages(store)) == 1


def test_pages_stay_few_and_small(monkeypatch):
    monkeypatch.setattr(seen, "PAGE_FILES", 64)
    store = MemoryStore()
    log = opened(store, SeenLog.start())
    largest = 0
    for number in range(1000):
        before = set(pages(store))
        end = log.append(files(f"file-{number}"))
        written = set(pages(store)) - before
        largest = max(largest, *(store.size(key) for key in written))
        log.committed(end)
    assert len(pages(store)) <= 1000 / 32 + 7
    assert largest < 64 * 40 + len(pages(store)) * 80


def test_many_files_at_once_become_several_pages(monkeypatch):
    monkeypatch.setattr(seen, "PAGE_FILES", 4)
    store = MemoryStore()
    many = files(*(f"{i:02d}" for i in range(10)))
    log = opened(store, SeenLog.start())
    end = log.append(many)
    assert len(pages(store)) == 3
    assert opened(store, end).between(SeenLog.start(), end) == many
    log.go_to(SeenLog.start())
    assert "09" not in log


def test_a_changed_page_is_named():
    store = MemoryStore()
    end = opened(store, SeenLog.start()).append(files("a"))
    (key,) = pages(store)
    store.put(key, bytes(store.read(key)).replace(b'"a"', b'"b"'))
    with pytest.raises(DamagedStateError, match=key):
        opened(store, end)


def test_a_missing_page_is_named():
    store = MemoryStore()
    end = opened(store, SeenLog.start()).append(files("a"))
    (key,) = pages(store)
    store.delete(key)
    with pytest.raises(MissingFileError, match=key):
        opened(store, end)


def test_a_page_of_a_later_format_is_refused():
    store = MemoryStore()
    store.put("sources/in/pages/x.json", seal({"format": 99, "files": [], "before": []}))
    with pytest.raises(NewerFormatError):
        opened(store, {"files": 1, "head": "x"})


@pytest.mark.parametrize("name", ["a/b", "..", ".hidden", "ä ö", "x%2Fy"])
def test_no_name_of_a_source_leaves_its_folder(name):
    store = MemoryStore()
    SeenLog(store, name).append(files("a"))
    (key,) = store.list(folder_of(name))
    assert key.count("/") == 3
    assert key.startswith("sources/")


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 9)),
        st.tuples(st.just("abandon"), st.integers(1, 9)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("intruder"), st.integers(1, 9)),
        st.tuples(st.just("commit"), st.integers(0, 2)),
    ),
    max_size=40,
)


@given(script=steps)
def test_is_a_list_whatever_happens(script):
    """Appends that are journalled make a list; nothing else leaves a trace in it."""
    original, seen.PAGE_FILES = seen.PAGE_FILES, 8
    try:
        store, names = MemoryStore(), iter(range(10_000))
        log, twin, offsets = opened(store, SeenLog.start()), [], [SeenLog.start()]
        committed = 0
        for what, amount in script:
            new = files(*(f"f{next(names)}" for _ in range(amount)))
            if what == "append":
                log.go_to(offsets[-1])
                offsets.append(journalled(log.append(new)))
                twin += new
            elif what == "abandon":
                log.go_to(offsets[-1])
                log.append(new)
            elif what == "intruder":
                opened(store, offsets[-1]).append(new)
            elif what == "restart":
                log = opened(store, offsets[-1])
            else:
                committed = max(committed, len(offsets) - 1 - amount)
                log.committed(offsets[committed])
            log.go_to(offsets[-1])
            assert offsets[-1]["files"] == len(twin)
            assert all(file.path in log for file in twin)
            assert len(log._seen) == len(twin)
            for start, end in zip(offsets[committed:], offsets[committed + 1 :], strict=False):
                assert log.between(start, end) == twin[start["files"] : end["files"]]
        assert opened(store, offsets[-1]).between(SeenLog.start(), offsets[-1]) == twin
    finally:
        seen.PAGE_FILES = original
