"""A store of several hosts: who reads fetches what it touches, and the cache may go at any time."""

from __future__ import annotations

import multiprocessing
import os
import re
import resource
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from rechannel.errors import DamagedStateError, MissingFileError, StorageError
from rechannel.model.hashspace import SPACE, Intervals
from rechannel.state.cache.fetch_time import fetched
from rechannel.state.cache.host_cache import VARIABLE
from rechannel.state.cache.partial_file import PIECE
from rechannel.state.segments import segment as segments
from rechannel.state.segments.segment import (
    SegmentMeta,
    Written,
    forget_segments,
    open_segment,
    verify_segment,
    write_segment,
)
from rechannel.state.store import FileFacts
from rechannel.state.stores import shared
from rechannel.state.stores.local import Durability, LocalStore
from rechannel.state.stores.memory import MemoryStore
from rechannel.state.stores.overlay import OverlayStore
from rechannel.state.stores.shared import SharedStore

META = SegmentMeta(operator="counts", timestep=7, task=2, attempt="3-41", logic=1, schema="f00d")
KEY = "segments/counts/7-2.arrow"
ROWS = 200_000
RNG = np.random.default_rng(5)
HASHES = np.sort(RNG.integers(0, 2**64, ROWS, dtype=np.uint64))
COLUMNS = pa.record_batch(
    {
        "key": pa.array(RNG.integers(0, 2**40, ROWS)),
        "count": pa.array(RNG.integers(0, 9, ROWS), mask=RNG.random(ROWS) < 0.1),
        "name": pa.array([f"name {n}" * (n % 4) for n in range(ROWS)]),
        "list": pa.array([list(range(n % 3)) for n in range(ROWS)], pa.list_(pa.int32())),
        "pair": pa.StructArray.from_arrays(
            [pa.array(RNG.random(ROWS)), pa.array([f"s{n % 7}" for n in range(ROWS)])],
            names=["x", "y"],
        ),
        "map": pa.array([[("k", n % 5)] for n in range(ROWS)], pa.map_(pa.string(), pa.int64())),
    }
)


PAGE = Path(__file__).parents[4] / "docs" / "state-that-travels.md"


def bins(*numbers: int, of: int = 256) -> Intervals:
    return Intervals.of([(SPACE * n // of, SPACE * (n + 1) // of) for n in numbers])


def restart() -> None:
    """Forget what this process has open, as a new one has."""
    segments._segments._entries.clear()
    shared._files._entries.clear()


@pytest.fixture
def backing(tmp_path):
    store = LocalStore(tmp_path / "state", Durability.PROCESS)
    write_segment(store, KEY, HASHES, COLUMNS, META, dropped=np.arange(ROWS) % 100 == 0)
    return store


@pytest.fixture
def store(backing, tmp_path):
    restart()
    return SharedStore(backing, str(tmp_path / "cache"), 1 << 30)


def read(store: SharedStore, where: Intervals, made: Written | None = None) -> None:
    """Read rows as a merge does and compare them with what was written. made: what the journal has of it."""
    known = (made.digest, made.size) if made else ()
    segment = open_segment(store, KEY, *known)
    pieces = segment.slices(where)
    assert pieces == list(where.slices(HASHES))
    for piece in pieces:
        segment.touch(piece)
        assert segment.hashes[piece].tolist() == HASHES[piece].tolist()
        for index, column in enumerate(COLUMNS.columns):
            length = piece.stop - piece.start
            found = segment.column(index).slice(piece.start, length)
            assert found.equals(column.slice(piece.start, length))


def files(store: SharedStore) -> list[Path]:
    return sorted(Path(store.cache).glob("*.part"))


def _refuse(*_: object) -> None:
    raise StorageError("no answer")


def allocated(store: SharedStore) -> int:
    return sum(path.stat().st_blocks * 512 for path in files(store))


def test_only_what_is_touched_is_fetched(store):
    before = fetched()
    read(store, bins(3))
    new = fetched().since(before)
    whole = store.size(KEY)
    mapped = COLUMNS.column("map").nbytes  # maps have no rows that can be told apart: fetched whole
    assert 0 < new.bytes < mapped + whole / 10
    assert new.requests > 0
    assert allocated(store) <= new.bytes + 2 * PIECE
    before = fetched()
    read(store, bins(3))
    assert fetched().since(before).bytes == 0


def test_single_rows_cost_their_blocks(store):
    segment = open_segment(store, KEY)
    where = bins(100, 101)
    (piece,) = segment.slices(where)
    rows = np.array([piece.start + 5, piece.start + 700, piece.stop - 1])
    segment.touch(rows)
    for index, column in enumerate(COLUMNS.columns):
        assert segment.column(index).take(pa.array(rows)).equals(column.take(pa.array(rows)))
    before = fetched()
    segment.touch(rows[:2])
    assert fetched() == before


@pytest.mark.parametrize(
    "where",
    [
        Intervals.everything(),
        bins(0),
        bins(255),
        bins(*range(0, 256, 2)),
        Intervals.of([(0, 1), (SPACE - 1, SPACE)]),
        Intervals.of([(int(HASHES[7]), int(HASHES[7]) + 1), (int(HASHES[4096]), SPACE // 2)]),
        Intervals.of([(int(HASHES[8191]), int(HASHES[8192])), (int(HASHES[-1]), SPACE)]),
        Intervals.nothing(),
    ],
    ids=lambda where: str(len(where.spans)),
)
def test_any_intervals_are_found_without_reading_all_hashes(store, where):
    read(store, where)
    segment = open_segment(store, KEY)
    inside = np.concatenate([HASHES[piece] for piece in where.slices(HASHES)] or [HASHES[:0]])
    near = np.unique(np.concatenate([inside, inside + np.uint64(1)]))
    asked = np.concatenate([near[piece] for piece in where.slices(near)] or [near[:0]])
    rows = segment.search(asked, where)
    at = np.minimum(rows, ROWS - 1)
    assert (segment.hashes[at] == asked).tolist() == np.isin(asked, HASHES).tolist()
    assert (HASHES[at] == segment.hashes[at]).all()


def test_what_a_host_wrote_it_does_not_fetch(backing, tmp_path):
    restart()
    store = SharedStore(backing, str(tmp_path / "cache"), 1 << 30)
    made = write_segment(store, KEY, HASHES, COLUMNS, META)
    before = fetched()
    segment = open_segment(store, KEY, made.digest, made.size)
    assert not segment.partial
    read(store, Intervals.everything(), made)
    assert fetched() == before
    known = FileFacts.written(KEY, made.size, made.digest)
    assert bytes(store.backing.read(KEY)) == bytes(store.ranges(KEY, known).view)


def test_who_knows_the_digest_asks_the_store_for_nothing(store, monkeypatch):
    made = write_segment(store, KEY, HASHES, COLUMNS, META)
    monkeypatch.setattr(LocalStore, "facts", _refuse)
    restart()  # what another process of this host has open
    read(store, bins(3), made)
    shutil.rmtree(store.cache)  # and a process of another host
    restart()
    before = fetched()
    read(store, bins(3), made)
    assert 0 < fetched().since(before).bytes < made.size
    restart()
    with pytest.raises(StorageError, match="no answer"):
        open_segment(store, KEY)


def test_two_hosts_have_two_caches(store, tmp_path, monkeypatch):
    read(store, bins(3))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "other"))
    before = fetched()
    read(store, bins(3))
    assert fetched().since(before).bytes > 0
    assert len(list((tmp_path / "other").glob("*.part"))) == 1


def test_the_cache_may_vanish_while_it_is_read(store):
    segment = open_segment(store, KEY)
    first = segment.slices(bins(3))[0]
    segment.touch(first)
    shutil.rmtree(store.cache)
    before = fetched()
    for number in range(4, 40):
        piece = segment.slices(bins(number))[0]
        segment.touch(piece)
        assert (
            segment.column(2).slice(piece.start, 50).equals(COLUMNS.column(2)[piece.start :][:50])
        )
    assert fetched().since(before).bytes > 0
    assert not Path(store.cache).exists()
    assert segment.column(0)[first.start : first.stop].equals(
        COLUMNS.column(0)[first.start : first.stop]
    )
    assert open_segment(store, KEY) is not segment
    read(store, bins(3, 20))
    assert len(files(store)) == 1


def test_the_cache_may_vanish_under_a_complete_file(store):
    read(store, Intervals.everything())
    restart()
    segment = open_segment(store, KEY)
    assert not segment.partial
    shutil.rmtree(store.cache)
    before = fetched()
    segment.touch(slice(None))
    assert segment.column(2).equals(COLUMNS.column(2))
    assert fetched() == before


def test_without_a_usable_directory_it_goes_without(backing, tmp_path):
    restart()
    (tmp_path / "file").write_text("no directory")
    store = SharedStore(backing, str(tmp_path / "file" / "cache"), 1 << 30)
    write_segment(store, "segments/counts/8-0.arrow", HASHES, COLUMNS, META)
    before = fetched()
    read(store, bins(3))
    assert fetched().since(before).bytes > 0


def test_a_full_disk_is_no_error(store, monkeypatch):
    refused = []

    def full(*_):
        refused.append(True)
        raise OSError(28, "No space left on device")

    segment = open_segment(store, KEY)
    monkeypatch.setattr(os, "pwrite", full)
    (piece,) = segment.slices(bins(9))
    segment.touch(piece)
    assert refused
    assert segment.column(2)[piece.start : piece.stop].equals(
        COLUMNS.column(2)[piece.start : piece.stop]
    )


def test_the_least_recently_used_go_first_and_the_bound_holds(backing, tmp_path):
    restart()
    size = backing.size(KEY)
    store = SharedStore(backing, str(tmp_path / "cache"), 3 * size)
    keys = [f"segments/counts/{number}-0.arrow" for number in range(8)]
    for stamp, key in enumerate(keys):
        made = write_segment(store, key, HASHES, COLUMNS, META)
        newest = max(files(store), key=lambda path: path.stat().st_mtime_ns)
        os.utime(newest, ns=(stamp, stamp) if key != keys[0] else (10**18, 10**18))
    assert 0 < allocated(store) <= 3 * size
    restart()
    before = fetched()
    assert not open_segment(store, keys[0], made.digest, made.size).partial  # used last
    assert fetched() == before
    assert open_segment(store, keys[1], made.digest, made.size).partial


def test_a_segment_larger_than_the_bound_is_not_kept(backing, tmp_path):
    restart()
    store = SharedStore(backing, str(tmp_path / "cache"), 1 << 20)
    write_segment(store, "segments/counts/9-0.arrow", HASHES, COLUMNS, META)
    assert files(store) == []
    for number in range(60):
        read(store, bins(number))
    assert allocated(store) <= (1 << 20) + (1 << 16)


def test_nothing_but_the_caches_own_files_is_deleted(backing, tmp_path):
    restart()
    (tmp_path / "cache").mkdir()
    mine = tmp_path / "cache" / "mine.txt"
    mine.write_bytes(bytes(4 << 20))
    store = SharedStore(backing, str(tmp_path / "cache"), 1 << 20)
    for number in range(60):
        read(store, bins(number))
    assert mine.exists()


@pytest.mark.parametrize("whole", [False, True])
def test_wrong_bytes_in_the_cache_are_fetched_anew(store, whole):
    read(store, Intervals.everything() if whole else bins(0, 3, 250))
    (path,) = files(store)
    with path.open("r+b") as file:  # as a power failure may leave it: said to be here, and zeros
        file.write(bytes(store.size(KEY)))
    restart()
    before = fetched()
    read(store, bins(0, 3, 250))
    assert fetched().since(before).bytes > 0


def test_wrong_rows_alone_are_fetched_anew(store):
    read(store, bins(3))
    segment = open_segment(store, KEY)
    (path,) = files(store)
    (piece,) = segment.slices(bins(3))
    values = segment.column(0).buffers()[1]
    place = values.address - pa.py_buffer(store.ranges(KEY).view).address + piece.start * 8
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"wrong")
    restart()
    before = fetched()
    read(store, bins(3))
    assert fetched().since(before).bytes > 0


def test_what_is_wrong_in_the_shared_store_too_is_damage(backing, store):
    data = bytearray(backing.read(KEY))
    segment = open_segment(store, KEY)
    values = segment.column(0).buffers()[1]
    place = values.address - pa.py_buffer(store.ranges(KEY).view).address
    data[place] ^= 1
    backing.put(KEY, bytes(data))
    restart()
    with pytest.raises(DamagedStateError, match=r"column '(key|_hash, key)', block"):
        read(store, bins(0))
    with pytest.raises(DamagedStateError, match="does not match its checksum"):
        verify_segment(store, KEY)


def test_a_segment_that_was_written_anew_is_another(backing, store):
    read(store, Intervals.everything())
    other = COLUMNS.set_column(0, "key", pa.array(np.arange(ROWS)))
    write_segment(backing, KEY, HASHES, other, META)
    restart()
    segment = open_segment(store, KEY)
    segment.bring(bins(3))
    (piece,) = segment.slices(bins(3))
    assert segment.column(0)[piece.start].as_py() == piece.start


def test_a_deleted_segment_is_missed(store):
    store.delete(KEY)
    with pytest.raises(MissingFileError, match=r"7-2\.arrow"):
        open_segment(store, KEY)


def test_a_segment_that_vanishes_while_it_is_read_is_missed(store):
    segment = open_segment(store, KEY)
    segment.touch(segment.slices(bins(3))[0])
    store.delete(KEY)
    with pytest.raises(MissingFileError, match=r"7-2\.arrow"):
        segment.touch(segment.slices(bins(200))[0])


def test_a_segment_of_format_1_is_read_with_all_its_hashes(backing, tmp_path, monkeypatch):
    restart()
    monkeypatch.setattr(segments, "FORMAT", 1)
    monkeypatch.setattr(segments, "marks_of", lambda _: np.empty(0, np.uint64))
    write_segment(backing, KEY, HASHES, COLUMNS, META)
    monkeypatch.undo()
    store = SharedStore(backing, str(tmp_path / "cache"), 1 << 30)
    before = fetched()
    assert open_segment(store, KEY).partial
    read(store, bins(3, 77))
    assert fetched().since(before).bytes > HASHES.nbytes


def _reader(args: tuple[SharedStore, int]) -> int:
    store, seed = args
    restart()
    rng = np.random.default_rng(seed)
    before = fetched()
    for _ in range(30):
        read(store, bins(*sorted(set(rng.integers(0, 256, 2).tolist()))))
        restart()
        if rng.random() < 0.2:
            shutil.rmtree(store.cache, ignore_errors=True)
    return fetched().since(before).bytes


def test_processes_of_a_host_share_the_cache_while_it_is_deleted(store):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        read_bytes = pool.map(_reader, [(store, seed) for seed in range(2)])
    assert all(amount > 0 for amount in read_bytes)


def test_the_examples_of_the_page_hold():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 1
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), {})


def test_an_empty_file_in_the_cache_is_made_anew(store):
    read(store, bins(3))
    (path,) = files(store)
    os.truncate(path, 0)
    restart()
    read(store, bins(3))
    assert path.stat().st_size
    before = fetched()
    restart()
    read(store, bins(3))
    assert fetched() == before


def test_the_cache_leaves_half_of_the_disk(store, monkeypatch):
    read(store, bins(*range(256)))
    assert allocated(store)
    full = SimpleNamespace(total=0, used=0, free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    before = allocated(store)
    store._cache().sweep()
    assert allocated(store) <= before // 2


@pytest.mark.parametrize(
    ("allowed", "kept"), [(1024, 256), (1_000_000, 1024), (2, 1), (resource.RLIM_INFINITY, 1024)]
)
def test_open_files_stay_far_from_what_a_process_may_have(monkeypatch, allowed, kept):
    monkeypatch.setattr(shared.resource, "getrlimit", lambda _: (allowed, allowed))
    assert shared._files_kept() == kept


def test_a_process_that_has_read_a_segment_once_keeps_no_descriptor_of_it(store):
    before = _opened(store)
    read(store, bins(3))
    assert _opened(store) > before == 0
    forget_segments(store)
    assert _opened(store) == 0
    read(store, bins(3, 4))


def test_segments_under_an_overlay_are_closed_with_it(store):
    over = OverlayStore(upper=MemoryStore(), lower=store)
    open_segment(over, KEY)
    assert _opened(store)
    forget_segments(over)
    assert not _opened(store)


def _opened(store: SharedStore) -> int:
    """Count the descriptors of this process that name files of the store's cache."""
    names = (entry.readlink() for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink())
    return sum(name.is_relative_to(store.cache) for name in names)
