"""The store in a bucket: what object stores do that directories do not."""

from __future__ import annotations

import builtins
import pickle

import pytest

from rechannel.errors import MissingFileError, NotPermittedError, SetUpError, StorageError
from rechannel.model.patience import Patience
from rechannel.state.stores import objects
from rechannel.state.stores.objects import ObjectStore

obstore = pytest.importorskip("obstore")


@pytest.fixture
def store(tmp_path):
    return ObjectStore(f"memory://{tmp_path}")


def test_it_is_a_value(store):
    store.put("a.arrow", b"x")
    copy = pickle.loads(pickle.dumps(store))
    assert copy == store
    assert bytes(copy.read("a.arrow")) == b"x"


def test_a_create_whose_answer_was_lost_is_won(store, monkeypatch):
    """The client below sends a request again whose answer was lost: the object is there, and ours."""
    put, calls = obstore.put, []

    def twice(*args, **options):
        calls.append(put(*args, **options))
        return put(*args, **options)

    monkeypatch.setattr(obstore, "put", twice)
    assert store.create("journal/1.json", b"mine")
    assert len(calls) == 1
    monkeypatch.undo()
    assert not store.create("journal/1.json", b"mine")


def test_a_request_whose_answer_breaks_off_is_made_again(store, monkeypatch):
    store.put("a.arrow", b"x")
    for name in ("get", "put", "delete", "list"):
        ask, calls = getattr(obstore, name), []

        def broken(*args, ask=ask, calls=calls, **options):
            calls.append(ask(*args, **options))
            if len(calls) < 3:
                raise obstore.exceptions.GenericError("HTTP error: request or response body error")
            return calls[-1]

        monkeypatch.setattr(obstore, name, broken)
        if name == "get":
            assert bytes(store.read("a.arrow")) == b"x"
        elif name == "put":
            store.put("b.arrow", b"y")
        elif name == "list":
            assert [*store.list("")] == ["b.arrow"]
        else:
            store.delete("a.arrow")
        assert len(calls) == 3


def test_a_create_whose_answer_breaks_off_is_won(store, monkeypatch):
    put, calls = obstore.put, []

    def broken(*args, **options):
        calls.append(options)
        put(*args, **options)
        raise obstore.exceptions.GenericError("HTTP error: request or response body error")

    monkeypatch.setattr(obstore, "put", broken)
    assert store.create("journal/1.json", b"mine")
    assert len(calls) == 2
    assert not store.create("journal/1.json", b"other")


def test_a_bucket_that_does_not_answer_is_named(store, monkeypatch):
    said = []

    def refuse(*_, **__):
        said.append(True)
        raise obstore.exceptions.GenericError("no route to host\n\nDebug source: ...")

    for name in ("put", "get", "head", "list", "delete"):
        monkeypatch.setattr(obstore, name, refuse)
    for request in (
        lambda: store.put("a.arrow", b"x"),
        lambda: store.create("a.arrow", b"x"),
        lambda: store.read("a.arrow"),
        lambda: store.size("a.arrow"),
        lambda: list(store.list("a")),
        lambda: store.delete("a.arrow"),
    ):
        with pytest.raises(
            StorageError, match=r"cannot \w+ memory://.*no route to host\. Committed timesteps"
        ):
            request()
    assert len(said) == 6


def test_a_range_of_nothing_is_missed(store):
    with pytest.raises(MissingFileError, match=r"a\.arrow is missing"):
        store.read("a.arrow", 3, 0)


def test_names_are_kept_as_they_are(store):
    names = ["segments/a%20b/1.arrow", "segments/%2Ex/1.arrow"]
    for name in names:
        store.put(name, b"1")
    assert list(store.list("segments/")) == sorted(names)


def test_without_the_package_its_name_is_said(monkeypatch):
    real, refused = builtins.__import__, []

    def without(name, *args, **options):
        if name.startswith("obstore"):
            refused.append(name)
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SetUpError, match=r"pip install 'rechannel\[objects\]'"):
        objects.ObjectStore("s3://bucket/job")
    assert refused


def test_the_client_gives_up_long_before_a_job_does(monkeypatch):
    """It repeats a request for minutes if nothing is said: commands and stops would wait for it."""
    given = []

    def opened(url, **options):
        given.append(options["retry_config"]["retry_timeout"].total_seconds())
        return obstore.store.MemoryStore()

    monkeypatch.setattr(obstore.store, "from_url", opened)
    store = ObjectStore("s3://bucket/no-such-folder")
    try:
        store.put("a.arrow", b"x")
    finally:
        objects._buckets.pop(store, None)
    assert given == [20.0]
    assert Patience().seconds > 2 * given[0]


AZURE = """Generic MicrosoftAzure error: Error performing PUT http://x/state/a in 3ms - Server returned non-2xx status \
code: 400 Bad Request: <?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<Error>
  <Code>InvalidMetadata</Code>
  <Message>The metadata specified is invalid.
RequestId:f8de912a</Message>
</Error>"""


def test_the_reason_that_a_store_gives_is_said(store, monkeypatch):
    def refuse(*_, **__):
        raise obstore.exceptions.GenericError(AZURE)

    monkeypatch.setattr(obstore, "put", refuse)
    with pytest.raises(
        StorageError,
        match=r"400 Bad Request: InvalidMetadata, The metadata specified is invalid\. Committed",
    ):
        store.put("a.arrow", b"x")


def test_the_attribute_of_a_creator_is_an_identifier():
    """Azure refuses others, as C# would."""
    assert objects._CREATOR.isidentifier()
    assert objects._CREATOR.isascii()


@pytest.mark.parametrize("kind", ["PermissionDeniedError", "UnauthenticatedError"])
def test_a_permission_is_not_waited_for(store, monkeypatch, kind):
    def no(*_, **__):
        raise getattr(obstore.exceptions, kind)("403")

    for name in ("put", "get", "head", "list", "delete"):
        monkeypatch.setattr(obstore, name, no)
    asks = [
        lambda: store.read("lease.json"),
        lambda: store.put("a", b""),
        lambda: store.create("a", b""),
        lambda: store.delete("a"),
        lambda: [*store.list("a")],
    ]
    for ask in asks:
        with pytest.raises(NotPermittedError, match="waiting does not help"):
            ask()


@pytest.mark.parametrize("conflicts", [1, 100])
def test_a_create_that_another_request_has_hindered_is_made_again(store, monkeypatch, conflicts):
    put, calls = obstore.put, []

    def conflict(*given, **options):
        calls.append(1)
        if len(calls) <= conflicts:
            raise obstore.exceptions.AlreadyExistsError("409 ConditionalRequestConflict")
        return put(*given, **options)

    monkeypatch.setattr(obstore, "put", conflict)
    monkeypatch.setattr(objects, "PAUSE_SECONDS", 0)
    if conflicts == 1:
        assert store.create("journal/1.json", b"mine")
        assert len(calls) == 2
    else:
        with pytest.raises(StorageError, match="under way"):
            store.create("journal/1.json", b"mine")


def test_a_large_object_is_read_in_pieces_and_written_in_one(store, monkeypatch):
    monkeypatch.setattr(objects, "PIECE_BYTES", 1_000)
    data = bytes(range(256)) * 60
    puts, put = [], obstore.put

    def noted(*given, **options):
        puts.append(options)
        return put(*given, **options)

    monkeypatch.setattr(obstore, "put", noted)
    store.put("a.arrow", data)
    assert puts == [{"use_multipart": False}]
    asked, ranges = [], obstore.get_ranges

    def pieces(*given, starts, ends, **options):
        asked.append([end - start for start, end in zip(starts, ends, strict=True)])
        return ranges(*given, starts=starts, ends=ends, **options)

    monkeypatch.setattr(obstore, "get_ranges", pieces)
    assert bytes(store.read("a.arrow")) == data
    assert sum(map(sum, asked)) == len(data)
    assert max(map(max, asked)) == 1_000
    assert max(map(len, asked)) == objects.PIECES
