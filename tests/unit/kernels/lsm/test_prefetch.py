"""State that travels: fetched ahead, or when it is read, by whoever owns its bins now."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rechannel.errors import DamagedStateError
from rechannel.kernels.lsm import hash_filter
from rechannel.kernels.lsm.prefetch import Prefetched, prefetch
from rechannel.model.codec import encode
from rechannel.model.hashspace import SPACE, Intervals
from rechannel.model.routing import Routing, even_starts
from rechannel.operators.process.track import TrackLogic
from rechannel.state.cache.fetch_time import fetched
from rechannel.state.cache.host_cache import VARIABLE
from rechannel.state.segments import segment as segments
from rechannel.state.stores import shared
from rechannel.state.stores.local import Durability, LocalStore
from rechannel.state.stores.shared import SharedStore
from tests.support.tasks import ROWS, Bench, counting, rows

LEFT = Intervals.of([(0, SPACE // 8)])
MANY = rows(*((f"key {i}", i) for i in range(30_000)))
FEW = rows(*((f"key {i}", 1) for i in range(0, 30_000, 700)))


def scattered(owners: list[int]) -> Routing:
    return Routing(starts=even_starts(len(owners)), owners=tuple(owners), tasks=max(owners) + 1)


def restart() -> None:
    segments._segments._entries.clear()
    shared._files._entries.clear()


@pytest.fixture
def bench(tmp_path):
    restart()
    local = LocalStore(tmp_path / "state", Durability.PROCESS)
    return Bench(counting(), SharedStore(local, str(tmp_path / "here"), 1 << 30))


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Go on on another host."""

    def move() -> None:
        restart()
        monkeypatch.setenv(VARIABLE, str(tmp_path / "there"))

    return move


def counts(bench: Bench, name: str) -> int:
    return sum(report.costs.counts[name] for report in bench.reports)


def test_what_was_prefetched_is_not_fetched_again(bench, elsewhere):
    bench.step([(MANY, 0)])
    assert counts(bench, "bytes_fetched") == 0
    elsewhere()
    runs = bench.manifest.runs
    report = prefetch(bench.program, runs, Intervals.everything())
    assert report.bytes_fetched >= sum(run.size for run in runs) * 0.9
    assert (report.runs, report.missing) == (len(runs), 0)
    assert report.requests > 0
    assert report.bytes_present < report.bytes_fetched / 10
    restart()
    bench.step([(FEW, 0)])
    assert (counts(bench, "keys_found"), counts(bench, "bytes_fetched")) == (FEW.num_rows, 0)
    again = prefetch(bench.program, runs, Intervals.everything())
    assert again.bytes_fetched == 0
    assert again.bytes_present >= report.bytes_fetched * 0.9


def test_only_the_intervals_asked_for_are_fetched(bench, elsewhere):
    bench.step([(MANY, 0)])
    elsewhere()
    size = sum(run.size for run in bench.manifest.runs)
    report = prefetch(bench.program, bench.manifest.runs, LEFT)
    assert 0 < report.bytes_fetched < size / 2
    assert prefetch(bench.program, bench.manifest.runs, Intervals.nothing()) == Prefetched(
        ms=pytest.approx(0, abs=1e4)
    )


def test_without_a_cache_there_is_nothing_to_fetch(tmp_path):
    bench = Bench(counting(), LocalStore(tmp_path, Durability.PROCESS))
    bench.step([(MANY, 0)])
    bench.step([(FEW, 0)])
    assert counts(bench, "bytes_fetched") == 0
    assert all("fetch" not in report.costs.ms for report in bench.reports)
    report = prefetch(bench.program, bench.manifest.runs, Intervals.everything())
    assert report.bytes_fetched == report.requests == 0
    assert report.bytes_present == sum(run.size for run in bench.manifest.runs)
    assert set(encode(report)) >= {"bytes_fetched", "bytes_present", "ms"}


def test_a_segment_that_is_gone_is_counted(bench, elsewhere):
    bench.step([(MANY, 0)])
    runs = bench.manifest.runs
    elsewhere()
    bench.store.delete(runs[0].segment)
    report = prefetch(bench.program, runs, LEFT)
    assert (report.missing, report.bytes_fetched) == (1, 0)


def test_damage_is_said(bench, elsewhere):
    bench.step([(MANY, 0)])
    (run,) = bench.manifest.runs
    data = bytearray(bench.store.read(run.segment))
    data[len(data) // 2] ^= 1
    bench.store.put(run.segment, bytes(data))
    elsewhere()
    with pytest.raises(DamagedStateError, match="does not match its checksum"):
        prefetch(bench.program, [run], Intervals.everything())


def test_a_task_says_what_it_fetched_and_how_long_it_took(bench, elsewhere):
    bench.step([(MANY, 0)])
    elsewhere()
    before = fetched()
    bench.step([(FEW, 0)])
    new = fetched().since(before)
    (report,) = bench.reports
    assert report.costs.counts["bytes_fetched"] == new.bytes > 0
    assert report.costs.ms["fetch"] == pytest.approx(new.ms, abs=0.01)


def test_needles_of_a_partial_segment_go_through_the_sieve_of_its_clip(
    bench, elsewhere, monkeypatch
):
    bench.step([(MANY, 0)])
    bench.step([(rows(*((f"key {i}", 1) for i in range(9_000))), 0)])
    elsewhere()
    made = []
    build = hash_filter.HashFilter.of

    def watched(hashes, share=1.0):
        made.append(share)
        return build(hashes, share)

    monkeypatch.setattr(hash_filter.HashFilter, "of", watched)
    odd = scattered([n % 2 for n in range(16)])
    bench.step([(rows(("key 1", 1), ("key 29000", 1), ("new", 1)), 0)], routing=odd)
    assert counts(bench, "keys_found") == 2
    assert made
    assert all(0.4 < share < 0.7 for share in made)


def summed(key: str, state: int | None, rows: object) -> int | None:
    """The sum of `v`; a negative value ends the key."""
    values = rows["v"]
    return None if min(values) < 0 else (state or 0) + sum(values)


def dropping() -> TrackLogic:
    return TrackLogic(
        key_schema=pa.schema([ROWS.field("k")]),
        value_schema=pa.schema([ROWS.field("v")]),
        fields=pa.schema([("n", pa.int64())]),
        timeout_ms=None,
        update=summed,
    )


@pytest.mark.parametrize("seed", range(4))
def test_hosts_that_come_and_go_and_lose_their_caches_change_no_result(seed, tmp_path, monkeypatch):
    """Bins wander between hosts whose caches are cut or deleted; the twin has all state in memory."""
    restart()
    rng = np.random.default_rng(seed)
    local = LocalStore(tmp_path / "state", Durability.PROCESS)
    travelling = Bench(dropping(), SharedStore(local, str(tmp_path / "unused"), 1 << 20))
    twin = Bench(dropping())
    moved = deleted = 0
    for _ in range(14):
        host = tmp_path / f"host{rng.integers(3)}"
        monkeypatch.setenv(VARIABLE, str(host))
        if rng.random() < 0.3 and host.exists():
            shutil.rmtree(host)
            deleted += 1
        if rng.random() < 0.7:
            restart()
        routing = scattered([0, 1, 2, *rng.integers(0, 3, 29).tolist()])
        given = rows(
            *(
                (f"k{k}", int(rng.integers(-1, 9)))
                for k in rng.integers(0, 9_000, rng.choice([40, 4_000]))
            )
        )
        assert travelling.step([(given, 0)], routing=routing) == twin.step(
            [(given, 0)], routing=routing
        )
        moved += counts(travelling, "bytes_fetched") > 0
    assert moved
    assert deleted or seed
    assert not Path(tmp_path / "unused").exists()
