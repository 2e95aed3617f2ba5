from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import rechannel
from rechannel.errors import DamagedStateError, MissingFileError, NotPermittedError, StorageError
from rechannel.state.stores import local
from rechannel.state.stores.local import Durability, LocalStore


@pytest.fixture
def root(tmp_path):
    return tmp_path / "deep" / "state"


@pytest.fixture
def store(root):
    return LocalStore(root, Durability.PROCESS)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_is_a_value_that_travels(store, root):
    store.put("a.arrow", b"1")
    copy = pickle.loads(pickle.dumps(store))
    assert copy == store
    assert hash(copy) == hash(store)
    assert bytes(copy.read("a.arrow")) == b"1"


def test_a_relative_root_is_made_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    store = LocalStore("here")
    assert store.root == tmp_path / "here"
    assert store.durability is Durability.POWER


def test_repeated_reads_share_one_map(store, root):
    store.put("a.arrow", b"abc")
    first = store.read("a.arrow")
    assert store.read("a.arrow").obj is first.obj
    assert LocalStore(root, Durability.POWER).read("a.arrow", 1).obj is first.obj


def test_a_directory_made_anew_is_not_mistaken_for_the_old_one(store, root):
    store.put("a.arrow", b"abc")
    assert bytes(store.read("a.arrow")) == b"abc"
    (root / "a.arrow").unlink()
    root.rmdir()
    store.put("a.arrow", b"xyz")
    assert bytes(store.read("a.arrow")) == b"xyz"


def test_views_are_read_only(store):
    store.put("a.arrow", b"abc")
    assert store.read("a.arrow").readonly


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_maps_hold_no_descriptors(store):
    for number in range(20):
        store.put(f"{number}.arrow", b"abc")
    before = open_descriptors()
    views = [store.read(f"{number}.arrow") for number in range(20)]
    assert open_descriptors() == before
    assert {bytes(view) for view in views} == {b"abc"}


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_power_syncs_file_and_every_directory_on_the_way(monkeypatch, tmp_path):
    synced = []
    real = os.fsync

    def spy(descriptor):
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    root = tmp_path / "state"
    LocalStore(root, Durability.POWER).put("a/x.arrow", b"1")
    assert synced[:2] == [str(tmp_path), str(root)]
    assert Path(synced[2]).name.startswith(".tmp-")
    assert synced[3:] == [str(root / "a")]
    synced.clear()
    assert LocalStore(root, Durability.POWER).create("a/y.json", b"1")
    assert Path(synced[0]).name.startswith(".tmp-")
    assert synced[1:] == [str(root / "a")]


def test_process_syncs_nothing(monkeypatch, store):
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("synced"))
    store.put("a.arrow", b"1")
    store.create("b.json", b"1")


def test_a_short_write_is_continued(monkeypatch, store):
    monkeypatch.setattr(os, "writev", lambda fd, parts: os.write(fd, parts[0][:2]))
    store.put("a.arrow", [memoryview(b"abcde"), memoryview(b"fg"), memoryview(b"h")])
    assert bytes(store.read("a.arrow")) == b"abcdefgh"


@pytest.mark.parametrize("write", ["put", "create"])
def test_a_full_disk_names_path_and_free_space_and_leaves_nothing(monkeypatch, store, root, write):
    def full(descriptor, parts):
        os.write(descriptor, parts[0][:1])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "writev", full)
    with pytest.raises(StorageError, match=r"a/x\.json: No space left.*MiB are free") as caught:
        getattr(store, write)("a/x.json", b"abc")
    assert str(root) in str(caught.value)
    assert list((root / "a").iterdir()) == []


@pytest.mark.parametrize("call", ["replace", "link"])
def test_a_refused_name_is_reported_and_leaves_nothing(monkeypatch, store, root, call):
    def refuse(*_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, call, refuse)
    write = store.put if call == "replace" else store.create
    with pytest.raises(StorageError, match="Permission denied"):
        write("a/x.json", b"abc")
    assert list((root / "a").iterdir()) == []


def test_an_unreadable_file_is_not_called_missing(monkeypatch, store):
    store.put("a.json", b"1")

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(StorageError, match=r"cannot read .*a\.json: Permission denied"):
        store.read("a.json")


def test_a_file_where_a_directory_should_be_is_reported(tmp_path):
    (tmp_path / "state").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot write"):
        LocalStore(tmp_path / "state").put("a.json", b"1")


def test_leftovers_of_dead_writers_are_invisible_and_swept(store, root):
    store.put("a/x.arrow", b"1")
    (root / "a" / ".tmp-1-1").write_bytes(b"half")
    (root / ".tmp-2-7").write_bytes(b"")
    assert list(store.list("")) == ["a/x.arrow"]
    assert store.sweep_temporaries() == 2
    assert sorted(p.name for p in root.rglob("*")) == ["a", "x.arrow"]
    assert store.sweep_temporaries() == 0


def test_the_name_of_a_leftover_is_not_used_again(monkeypatch, store, root):
    root.mkdir(parents=True)
    monkeypatch.setattr(local, "_serial", iter([5, 6]))
    leftover = root / f".tmp-{os.getpid()}-5"
    leftover.write_bytes(b"half")
    store.put("a.json", b"1")
    assert leftover.read_bytes() == b"half"
    assert bytes(store.read("a.json")) == b"1"


def test_a_link_whose_answer_was_lost_counts(monkeypatch, store):
    real = os.link

    def twice(source, target):
        real(source, target)
        real(source, target)

    monkeypatch.setattr(os, "link", twice)
    assert store.create("a.json", b"1")


CREATOR = """
import sys
from rechannel.state.stores.local import LocalStore, Durability
store = LocalStore(sys.argv[1], Durability.PROCESS)
print(sum(store.create(f"journal/{n}.json", sys.argv[2].encode()) for n in range(300)))
"""


def test_of_two_processes_one_creates_each_name(store, root):
    source = Path(rechannel.__path__[0]).parent
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", CREATOR, str(root), name],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(source)},
        )
        for name in "ab"
    ]
    won = {name: int(w.communicate()[0]) for name, w in zip("ab", writers, strict=True)}
    wrote = [bytes(store.read(key)).decode() for key in store.list("journal/")]
    assert len(wrote) == 300
    assert {name: wrote.count(name) for name in "ab"} == won
    assert list(root.rglob(".tmp-*")) == []


@pytest.mark.parametrize("key", ["a.json", "a.arrow"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_told_and_not_waited_for(store, root, make, key):
    root.mkdir(parents=True)
    make(root / key)
    before = open_descriptors()
    with pytest.raises(DamagedStateError, match="instead of a file"):
        store.read(key, 0, 3) if key.endswith("json") else store.fetch(key, [(0, 3)])
    assert open_descriptors() == before


@pytest.mark.parametrize(
    ("code", "mends"),
    [
        ("EACCES", False),
        ("EPERM", False),
        ("EROFS", False),
        ("ENOSPC", True),
        ("EDQUOT", True),
        ("EIO", True),
    ],
)
def test_what_waiting_does_not_mend_is_table_key(monkeypatch, store, root, code, mends):
    number = getattr(errno, code)

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(local, "_write_all", refuse)
    with pytest.raises(StorageError, match=f"cannot write {root}/a.json: ") as raised:
        store.put("a.json", b"1")
    assert isinstance(raised.value, NotPermittedError) is not mends
    assert ("MiB are free there" in str(raised.value)) is mends
    said = "retries as long" if mends else "Waiting does not help"
    assert said in str(raised.value)


@pytest.mark.parametrize("stale", [1, 100])
def test_a_record_that_another_host_replaces_meanwhile_is_not_missing(tmp_path, monkeypatch, stale):
    store = LocalStore(tmp_path)
    store.put("lease.json", b"here")
    read, calls = local._read_record, []

    def replaced(path):
        calls.append(path)
        if len(calls) <= stale:
            raise OSError(errno.ESTALE, "Stale file handle")
        return read(path)

    monkeypatch.setattr(local, "_read_record", replaced)
    if stale == 1:
        assert bytes(store.read("lease.json")) == b"here"
    else:
        with pytest.raises(StorageError) as raised:
            store.read("lease.json")
        assert not isinstance(raised.value, MissingFileError)
