"""The store in HDFS, against a client in memory: names, lost answers, and what errors say."""

from __future__ import annotations

import builtins
import pickle

import pytest

import rechannel as rc
from rechannel.errors import (
    MissingFileError,
    NotPermittedError,
    SetUpError,
    StorageError,
)
from rechannel.job import InProcess
from rechannel.state.store import RemoteStore, Sweepable
from rechannel.state.stores.hdfs import HdfsStore
from rechannel.state.stores.hdfs import store as module
from rechannel.state.stores.hdfs.said import refusal_of
from rechannel.state.stores.local import Durability
from rechannel.state.stores.locations import open_store, sweep_temporaries
from rechannel.state.stores.probe import check_promises
from rechannel.state.stores.shared import SharedStore
from tests.unit.state.stores.hdfs_in_memory import Client
from tests.unit.state.stores.test_stores import BackingContract

PLACE = "names.example:8020"
URL = f"hdfs://{PLACE}/jobs/one"


@pytest.fixture
def client(monkeypatch):
    found = Client()
    monkeypatch.setitem(module._clients, PLACE, found)
    return found


@pytest.fixture
def store(client):
    return HdfsStore(URL)


class TestHdfsStore(BackingContract):
    @pytest.fixture
    def store(self, client):
        return HdfsStore(URL)


class TestHdfsStoreAtTheRoot(BackingContract):
    @pytest.fixture
    def store(self, client):
        return HdfsStore(f"hdfs://{PLACE}", Durability.PROCESS)


def test_it_is_a_value_and_a_remote_store(store):
    assert pickle.loads(pickle.dumps(store)) == store
    assert isinstance(store, RemoteStore)
    assert isinstance(store, Sweepable)
    assert store.lacks() is None
    opened = open_store(f"{URL}/", durability=Durability.PROCESS, cache="/cache", cache_bytes=1)
    assert opened == SharedStore(HdfsStore(URL, Durability.PROCESS), "/cache", 1)


def test_it_keeps_its_promises_and_leaves_nothing(store, client):
    check_promises(store, URL)
    assert not client.files


def test_files_appear_under_their_names_below_the_url(store, client):
    store.put("a/b.arrow", b"x")
    assert [*client.files] == ["/jobs/one/a/b.arrow"]


def test_a_sync_is_asked_for_if_power_may_fail(store, client):
    store.put("a.arrow", b"x")
    assert client.syncs == 1
    HdfsStore(URL, Durability.PROCESS).put("a.arrow", b"x")
    assert client.syncs == 1


def test_a_large_file_is_one_block(store, client, monkeypatch):
    monkeypatch.setattr(module, "_ONE_BLOCK", 100)
    store.put("a.arrow", bytes(100))
    store.put("b.arrow", bytes((3 << 20) + 1))
    assert [each.block_size for each in client.options] == [None, 4 << 20]


def test_temporary_files_are_no_keys_and_are_swept(store, client):
    store.put("a/b.arrow", b"x")
    client.files["/jobs/one/a/.tmp-1"] = (b"", 5_000)
    client.files["/jobs/one/.tmp-2"] = (b"", 9_000)
    assert [*store.list("")] == [*store.list("a/")] == ["a/b.arrow"]
    assert sweep_temporaries(SharedStore(store, "/cache"), before_s=6) == 1
    assert store.sweep_temporaries() == 1
    assert [*client.files] == ["/jobs/one/a/b.arrow"]


# Renames whose answers are lost ---------------------------------------------------------------------


@pytest.fixture
def repeated(client, monkeypatch):
    """The client repeats a rename that has happened, and hands on what it is told then."""
    rename, calls = client.rename, []

    def twice(src, dst, overwrite=False):
        calls.append(src)
        if len(calls) == 1:
            rename(src, dst, overwrite)
        rename(src, dst, overwrite)

    monkeypatch.setattr(client, "rename", twice)
    return calls


def test_a_create_whose_rename_is_repeated_is_won(store, repeated):
    assert store.create("journal/1.json", b"mine")
    assert len(repeated) == 1
    assert not store.create("journal/1.json", b"mine")


def test_a_create_is_lost_to_another_writer_whatever_became_of_its_file(store, client, monkeypatch):
    """Another driver has removed temporary files and then created the key."""
    rename, met = client.rename, []

    def swept(src, dst, overwrite=False):
        met.append(store.sweep_temporaries())
        monkeypatch.setattr(client, "rename", rename)
        assert store.create("journal/1.json", b"theirs")
        rename(src, dst, overwrite)

    monkeypatch.setattr(client, "rename", swept)
    assert not store.create("journal/1.json", b"mine")
    assert met == [1]
    assert bytes(store.read("journal/1.json")) == b"theirs"


def test_a_create_whose_file_was_removed_fails_and_can_be_repeated(store, client, monkeypatch):
    rename = client.rename

    def swept(src, dst, overwrite=False):
        monkeypatch.setattr(client, "rename", rename)
        assert store.sweep_temporaries() == 1
        rename(src, dst, overwrite)

    monkeypatch.setattr(client, "rename", swept)
    with pytest.raises(StorageError, match=r"cannot create hdfs://.*rename source .* is not found"):
        store.create("journal/1.json", b"mine")
    assert store.create("journal/1.json", b"mine")


def test_a_put_whose_rename_is_repeated_fails_and_can_be_repeated(store, repeated):
    with pytest.raises(StorageError, match="cannot write hdfs://"):
        store.put("a.arrow", b"x")
    assert bytes(store.read("a.arrow")) == b"x"
    store.put("a.arrow", b"y")
    assert bytes(store.read("a.arrow")) == b"y"


def test_a_file_that_is_replaced_while_it_is_read_is_read_again(store, client, monkeypatch):
    store.put("a.arrow", b"old")
    read, tried = client.read, []

    def replaced(path):
        tried.append(path)
        monkeypatch.setattr(client, "read", read)
        store.put("a.arrow", b"newer")
        raise OSError("replica is not found")

    monkeypatch.setattr(client, "read", replaced)
    assert bytes(store.read("a.arrow")) == b"newer"
    assert len(tried) == 1


# Errors ---------------------------------------------------------------------------------------------


def rpc(kind, message):
    return RuntimeError(
        f'RPCError("org.apache.hadoop.{kind}", "{message}\\n\\tat org.x(X.java:1)")'
    )


@pytest.mark.parametrize(
    ("error", "said", "missing", "denied"),
    [
        (FileNotFoundError("/a\n\tat org"), "/a", True, False),
        (OSError("Connection refused (os error 111)"), "Connection refused (os error 111)", False, False),
        (rpc("x.FileNotFoundException", "/a"), "FileNotFoundException: /a", True, False),
        (
            rpc("security.AccessControlException", "Permission denied: user=a"),
            "AccessControlException: Permission denied: user=a", False, True,
        ),
        (
            rpc("security.AccessControlException", "/a (is not a directory)"),
            "AccessControlException: /a (is not a directory)", True, False,
        ),
        (
            rpc("hdfs.protocol.DSQuotaExceededException", 'The quota of \\"/a\\" is exceeded'),
            'DSQuotaExceededException: The quota of \\"/a\\" is exceeded', False, False,
        ),
    ],
)  # fmt: skip
def test_what_errors_mean(error, said, missing, denied):
    refusal = refusal_of(error)
    assert (refusal.said, refusal.missing, refusal.denied) == (said, missing, denied)


def failing(error):
    def call(*_, **__):
        raise error

    return call


def test_what_fails_is_named_and_whether_waiting_helps(store, client, monkeypatch):
    for name in ("create", "read", "get_file_info", "list_status", "delete"):
        monkeypatch.setattr(client, name, failing(OSError("Connection refused")))
    requests = (
        lambda: store.put("a.arrow", b"x"),
        lambda: store.create("a.arrow", b"x"),
        lambda: store.read("a.arrow"),
        lambda: store.size("a.arrow"),
        lambda: [*store.list("a")],
        lambda: store.delete("a.arrow"),
    )
    for request in requests:
        with pytest.raises(StorageError, match=r"cannot \w+ hdfs://.*Connection refused\. Commit"):
            request()
    denied = rpc("security.AccessControlException", "Permission denied: user=a")
    for name in ("create", "read", "get_file_info", "list_status", "delete"):
        monkeypatch.setattr(client, name, failing(denied))
    for request in requests:
        with pytest.raises(NotPermittedError, match=r"Waiting does not help.*HADOOP_USER_NAME"):
            request()


def test_a_folder_is_no_file(store):
    store.put("a/b.arrow", b"x")
    with pytest.raises(MissingFileError, match="a is missing"):
        store.size("a")


def test_a_job_does_not_start_if_no_name_node_is_known(monkeypatch):
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    flow = rc.read().memory("k BIGINT", name="rows").write.memory("out")
    job = rc.Job("j", flow, state="hdfs://nameservice/jobs/one")
    with pytest.raises(SetUpError, match=r"no name node is known for hdfs://nameservice/jobs/one"):
        job.start(in_process=InProcess())


def test_without_the_package_its_name_is_said(monkeypatch):
    real, refused = builtins.__import__, []

    def without(name, *args, **options):
        if name.startswith("hdfs_native"):
            refused.append(name)
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SetUpError, match=r"pip install 'rechannel\[hdfs\]'"):
        HdfsStore(URL)
    assert refused
