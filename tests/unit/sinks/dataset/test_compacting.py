"""Compaction: many small files become few large ones, exactly once, whatever dies when."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rechannel.errors import DamagedStateError, FencedError, MissingFileError, StorageError
from rechannel.sinks.dataset import compacting, merging, parquet
from rechannel.sinks.dataset.manifest import Manifest, Page, paged
from rechannel.sinks.dataset.versions import Versions
from rechannel.sinks.dataset.wanted import Wanted
from rechannel.state.stores.faulty import Crash, Fault, FaultKind, Outage
from tests.datasets import KEEP_MS, Disk, Driver

STEPS = 5
KEYS = 3


def rows_of(timestep: int) -> list[tuple[int, int]]:
    """Rows of a timestep: partition or key, and a number that no other timestep has. One timestep has none."""
    numbers = () if timestep == 3 else range(timestep, timestep + 4)
    return [(n % KEYS, 100 * timestep + n) for n in numbers]


def wanted(kind: str) -> Wanted:
    more: dict[str, Any] = {"keyed": {"keys": ("k",)}, "parts": {"partitions": ("k",)}}.get(
        kind, {}
    )
    return Wanted(rows=12, keep_ms=KEEP_MS, **more)


def expected(kind: str, last: int) -> list[tuple[int, int]]:
    rows = [row for timestep in range(last + 1) for row in rows_of(timestep)]
    return sorted(dict(rows).items()) if kind == "keyed" else sorted(rows)


def work(driver: Driver, done: list[int]) -> None:
    """Publish what is owed, with compaction and tidying between the timesteps."""
    for timestep in range(len(done), STEPS):
        driver.publish(timestep, *rows_of(timestep))
        done.append(timestep)
        driver.compact()
        driver.disk.now_ms += KEEP_MS / 3
        driver.compaction.tidy()


@pytest.fixture
def _small(monkeypatch):
    """Merges of two files, and pages of one."""
    monkeypatch.setattr(compacting, "PAGE_FILES", 1)
    monkeypatch.setattr(merging, "FAN_IN", 2)


def writes_of(kind: str) -> int:
    """How many writes there are without a fault; merges, and pages where there can be any, are among them."""
    disk = Disk(wanted(kind))
    driver = disk.driver()
    work(driver, [])
    output = disk.read()
    assert any(each.first < each.last for each in output.named)
    assert output.manifest.pages or kind != "plain"
    return driver.place.store.writes


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("kind", ["plain", "parts", "keyed"])
@pytest.mark.parametrize("fault", [FaultKind.TORN, FaultKind.AFTER])
def test_a_driver_that_dies_at_any_write_changes_nothing(kind, fault):
    writes = writes_of(kind)
    for number in range(writes + 1):
        disk, done = Disk(wanted(kind)), []
        crashed = False
        try:
            driver = disk.driver([None] * number + [Fault(kind=fault)])
            work(driver, done)
        except Crash:
            crashed = True
        seen = disk.rows() if disk.versions() else []
        last = len(done) - 1
        assert seen in (expected(kind, last), expected(kind, last + 1)), (number, fault)
        driver = disk.driver()
        assert disk.rows() == seen
        work(driver, done)
        assert disk.rows() == expected(kind, STEPS - 1), (number, fault)
        driver.compaction.sweep()
        disk.now_ms += 2 * KEEP_MS
        driver.compaction.tidy()
        driver.compaction.tidy()
        assert disk.litter() == set(), (number, fault)
        assert len(disk.versions()) <= 3
        assert crashed == (number < writes)


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("kind", ["plain", "parts", "keyed"])
@pytest.mark.parametrize("outage", [Outage(), Outage(written=True), Outage(calls=3, written=True)])
def test_a_store_that_does_not_answer_at_any_write_changes_nothing(kind, outage):
    for number in range(1, writes_of(kind)):
        disk, done = Disk(wanted(kind)), []
        driver = disk.driver([None] * number + [outage])
        for _ in range(20):
            try:
                work(driver, done)
                break
            except StorageError:
                assert disk.rows() in (
                    expected(kind, len(done) - 1),
                    expected(kind, len(done)),
                )
        assert disk.rows() == expected(kind, STEPS - 1), (number, outage)


def test_files_become_few_and_pages_take_those_that_are_finished(monkeypatch):
    monkeypatch.setattr(compacting, "PAGE_FILES", 4)
    disk = Disk(Wanted(target=1 << 13, keep_ms=KEEP_MS))
    driver = disk.driver()
    for timestep in range(150):
        driver.publish(timestep, *[(n, hash((timestep, n))) for n in range(40)])
        driver.compact()
    output = disk.read()
    assert output.table().num_rows == 6_000
    assert len(output.named) < 30
    assert len(output.manifest.pages) > 2
    assert len(output.manifest.files) < 12


def test_a_merge_is_as_large_as_files_should_be_and_no_row_is_written_again_for_ever():
    disk = Disk(Wanted(target=1 << 14, keep_ms=KEEP_MS))
    driver = disk.driver()
    read: list[int] = []
    driver.compaction.spend = read.append
    total = 0
    for timestep in range(150):
        driver.publish(timestep, *[(n, hash((timestep, n))) for n in range(40)])
        total += disk.read().named[-1].size
        driver.compact()
    assert max(each.size for each in disk.read().named) < 2 << 14
    assert sum(read) < 5 * total


def test_files_stay_for_readers_as_long_as_the_dataset_keeps_them():
    disk = Disk()
    driver = disk.driver()
    for timestep in range(4):
        driver.publish(timestep, *rows_of(timestep))
    output = disk.read()
    before = output.table()
    assert driver.compact()
    disk.now_ms += KEEP_MS / 2
    driver.compaction.tidy()
    assert output.table() == before
    assert disk.read(version=output.version).table() == before
    disk.now_ms += KEEP_MS
    driver.compaction.tidy()
    with pytest.raises(MissingFileError):
        output.table()
    assert disk.rows() == expected("plain", 3)


def test_a_driver_that_was_replaced_can_neither_publish_nor_merge_nor_be_swept_over():
    disk = Disk()
    old = disk.driver()
    for timestep in range(3):
        old.publish(timestep, *rows_of(timestep))
    new = disk.driver()
    with pytest.raises(FencedError, match="epoch 2"):
        old.publish(4, *rows_of(4))
    with pytest.raises(FencedError):
        old.compact()
    new.compaction.sweep()
    assert disk.rows() == expected("plain", 2)


def test_a_merge_and_a_publication_at_once_both_count(monkeypatch):
    disk = Disk()
    driver = disk.driver()
    for timestep in range(3):
        driver.publish(timestep, *rows_of(timestep))
    merged_files = driver.compaction._merged

    def slow(merge):
        new = merged_files(merge)
        driver.publish(4, *rows_of(4))
        return new

    monkeypatch.setattr(driver.compaction, "_merged", slow)
    assert driver.compaction.merge()
    assert disk.rows() == sorted(expected("plain", 2) + rows_of(4))


def test_a_merge_whose_files_another_merge_took_leaves_nothing(monkeypatch):
    disk = Disk()
    driver = disk.driver()
    for timestep in range(3):
        driver.publish(timestep, *rows_of(timestep))
    merged_files = driver.compaction._merged

    def late(merge):
        new = merged_files(merge)
        monkeypatch.undo()
        driver.compaction.merge()
        return new

    monkeypatch.setattr(driver.compaction, "_merged", late)
    driver.compaction.merge()
    assert disk.rows() == expected("plain", 2)
    disk.now_ms += 2 * KEEP_MS
    driver.compaction.tidy()
    assert disk.litter() == set()


def test_what_a_driver_that_slept_for_long_writes_is_litter():
    """It makes a version whose number was free again: files that this version calls replaced stay."""
    disk = Disk()
    old = disk.driver()
    for timestep in range(3):
        old.publish(timestep, *rows_of(timestep))
    asleep = old.place.versions
    new = disk.driver()
    for timestep in range(4, 8):
        new.publish(timestep, *rows_of(timestep))
    disk.now_ms += 2 * KEEP_MS
    new.compaction.tidy()
    new.compaction.tidy()
    before, numbers = disk.rows(), len(disk.versions())
    files = asleep.known.files
    made = asleep.commit(lambda known: compacting.merged(known, files, (), at_ms=0))
    assert made is not None
    assert len(disk.versions()) == numbers + 1
    assert disk.rows() == before
    new.publish(9, (1, 1))
    disk.now_ms += 2 * KEEP_MS
    new.compaction.tidy()
    new.compaction.tidy()
    assert disk.rows() == sorted([*before, (1, 1)])


def test_a_manifest_that_is_gone_is_not_begun_anew():
    disk = Disk()
    driver = disk.driver()
    driver.publish(0, *rows_of(0))
    for key in disk.versions():
        disk.store.delete(key)
    driver.place.versions._doubtful = True
    with pytest.raises(DamagedStateError, match="version 2 of the manifest is gone"):
        driver.publish(1, *rows_of(1))


def test_a_merge_takes_batches_whole(monkeypatch):
    disk = Disk(Wanted(keep_ms=KEEP_MS))
    driver = disk.driver()
    for timestep in range(merging.FAN_IN):
        driver.publish(timestep, *[(n, n) for n in range(50)])
    added: list[int] = []
    add = parquet._Open.add

    def counted(self, batch):
        added.append(batch.num_rows)
        add(self, batch)

    monkeypatch.setattr(parquet._Open, "add", counted)
    assert driver.compaction.merge()
    assert added == [50] * merging.FAN_IN


@pytest.mark.usefixtures("_small")
def test_files_that_are_in_a_page_get_into_no_second_one():
    """The store took the version with the page, and did not answer."""
    disk = Disk(Wanted(rows=1, rate=0, keep_ms=KEEP_MS))
    driver = disk.driver([None, None, None, None, Outage(written=True)])
    driver.publish(0, (1, 1))
    with pytest.raises(StorageError):
        driver.compaction.page()
    assert disk.read().manifest.pages
    driver.compaction.page()
    assert disk.rows() == [(1, 1)]


def test_a_version_makes_no_page_of_files_that_it_does_not_name():
    disk = Disk()
    driver = disk.driver()
    driver.publish(0, (1, 1))
    manifest = disk.read().manifest
    page = Page(key="p", files=1, rows=1, size=1)
    after = paged(manifest, manifest.files, page, at_ms=0)
    assert after is not None
    assert paged(after, manifest.files, page, at_ms=0) is None


def test_a_driver_that_slept_for_long_removes_nothing():
    """It makes a version whose number was free again, and takes it for the newest one."""
    disk = Disk()
    old = disk.driver()
    for timestep in range(3):
        old.publish(timestep, *rows_of(timestep))
    new = disk.driver()
    new.compact()
    for timestep in range(4, 8):
        new.publish(timestep, *rows_of(timestep))
    disk.now_ms += 2 * KEEP_MS
    new.compaction.tidy()
    new.compaction.tidy()
    before = disk.rows()
    files = old.place.versions.known.files
    made = old.place.versions.commit(lambda known: compacting.merged(known, files, (), at_ms=0))
    assert made is not None
    assert made.version < disk.read().version
    for step in (old.compaction.tidy, old.compaction.sweep):
        with pytest.raises(FencedError):
            step()
    assert disk.rows() == before


def test_a_driver_that_slept_while_it_took_over_looks_again():
    disk = Disk()
    disk.driver().publish(0, *rows_of(0))
    seen: list[Manifest | None] = []

    def first(before: Manifest | None) -> Manifest:
        seen.append(before)
        if len(seen) == 1:
            awake = disk.driver()
            for timestep in range(1, 5):
                awake.publish(timestep, *rows_of(timestep))
            disk.now_ms += 2 * KEEP_MS
            awake.compaction.tidy()
            awake.compaction.tidy()
        assert before is not None
        return replace(before, version=before.version + 1, epoch=9, removed=())

    slow = Versions(disk.store, "dataset disk")
    made = slow.open(first)
    assert len(seen) == 2
    assert made == disk.read().manifest
    assert disk.rows() == expected("plain", 4)


def test_a_file_of_another_name_is_left_alone():
    disk = Disk()
    disk.driver([None, Fault(kind=FaultKind.AFTER)])
    disk.store.put("_files/notes.txt", [b"mine"])
    disk.store.put("_files/00000000-t0-00000000.pq", [b"of a driver that died"])
    assert disk.driver().compaction.sweep() == 1
    assert disk.litter() == {"_files/notes.txt"}


def test_a_version_by_a_fast_clock_is_removed_as_others_are():
    disk = Disk()
    driver = disk.driver()
    for timestep in range(4):
        driver.publish(timestep, *rows_of(timestep))
        if timestep == 2:
            disk.now_ms += 1e9
            assert driver.compaction.merge()
            disk.now_ms -= 1e9
    for timestep in range(4, 12):
        disk.now_ms += KEEP_MS / 3
        driver.publish(timestep, *rows_of(timestep))
        driver.compaction.tidy()
    assert disk.litter() == set()
    assert len(disk.versions()) < 12


def test_files_larger_than_what_many_may_hold_together_are_merged_once(monkeypatch):
    monkeypatch.setattr(parquet, "MOST_HELD", 1 << 11)
    disk = Disk(Wanted(target=1 << 14, keep_ms=KEEP_MS))
    driver = disk.driver()
    for timestep in range(40):
        driver.publish(timestep, *[(n, hash((timestep, n))) for n in range(100)])
    assert driver.compact(50) < 50
    assert len(disk.rows()) == 4_000
