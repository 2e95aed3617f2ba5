"""Which files are merged next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.sinks.dataset import merging
from rechannel.sinks.dataset.manifest import DataFile
from rechannel.sinks.dataset.merging import FAN_IN, MOST_RUNS, QUIET, Policy, due, finished

KEYED = Policy(target=1000, keyed=True)
PLAIN = Policy(target=1000)


def file(
    timestep: int, size: int, *, part: str = "", rows: int = 1, last: int | None = None
) -> DataFile:
    last = timestep if last is None else last
    key = f"{part}-{timestep}-{last}-{size}"
    return DataFile(key=key, rows=rows, size=size, first=timestep, last=last, part=part)


def test_a_fan_of_small_files_is_merged_and_fewer_are_not():
    files = [file(n, 10) for n in range(FAN_IN)]
    assert due(files[:-1], PLAIN, FAN_IN) is None
    merge = due(files, PLAIN, FAN_IN)
    assert merge is not None
    assert merge.files == tuple(files)
    assert merge.size == 10 * FAN_IN


def test_few_files_that_fill_one_are_merged():
    merge = due([file(0, 300), file(1, 300)], PLAIN, 1)
    assert merge is not None
    assert len(merge.files) == 2


def test_a_large_file_waits_until_others_have_grown_to_its_size():
    large, small = file(0, 400), [file(n, 10) for n in range(1, FAN_IN)]
    assert due([large, *small], PLAIN, FAN_IN) is None
    merge = due([large, *small, file(FAN_IN, 10)], PLAIN, FAN_IN)
    assert merge is not None
    assert large not in merge.files


def test_partitions_are_merged_by_themselves():
    files = [file(n, 10, part=f"day={n % 2}") for n in range(2 * FAN_IN)]
    merge = due(files, PLAIN, 2 * FAN_IN)
    assert merge is not None
    assert {each.part for each in merge.files} == {"day=0"}


def test_what_a_quiet_partition_has_is_merged_whatever_its_sizes_and_then_finished():
    files = [file(0, 400, part="a"), file(1, 1, part="a")]
    assert due(files, PLAIN, QUIET) is None
    merge = due(files, PLAIN, QUIET + 1)
    assert merge is not None
    assert merge.files == tuple(files)
    assert finished(files, PLAIN, QUIET + 1) == ()
    assert finished(files[:1], PLAIN, QUIET + 1) == tuple(files[:1])


def test_a_file_of_half_the_target_is_finished_in_bytes_or_rows():
    by_rows = Policy(target=1000, rows=100)
    files = [file(0, 500), file(1, 10, rows=50), file(2, 10, rows=49)]
    assert finished(files, by_rows, 2) == tuple(files[:2])
    assert finished(files, PLAIN, 2) == tuple(files[:1])


def test_no_merge_has_more_rows_than_a_file_may_have():
    policy = Policy(target=1000, rows=100)
    merge = due([file(n, 1, rows=12) for n in range(20)], policy, 20)
    assert merge is not None
    assert sum(each.rows for each in merge.files) <= 100


def test_with_keys_nothing_is_finished_and_runs_are_merged_whole():
    run = [file(0, 400, last=3), DataFile(key="b", rows=1, size=400, first=0, last=3)]
    small = [file(n, 10) for n in range(4, 4 + FAN_IN)]
    assert finished([*run, *small], KEYED, 400) == ()
    merge = due([*run, *small], KEYED, 4 + FAN_IN)
    assert merge is not None
    assert not merge.whole
    assert set(merge.files) == set(small)
    large = [file(n, 120) for n in range(4, 4 + FAN_IN)]
    merge = due([*run, *large], KEYED, 4 + FAN_IN)
    assert merge is not None
    assert merge.whole
    assert set(merge.files) == {*run, *large}


@pytest.mark.parametrize("timestep", [5_000, 5_000 + QUIET])
def test_with_keys_a_merge_opens_a_bounded_number_of_runs(timestep):
    """Also the first one after a long time without any; and few of them take the large run again."""
    files = [file(n, 10) for n in range(5_000)]
    taken = 0
    while (merge := due(files, KEYED, timestep)) is not None:
        assert len(merge.files) <= MOST_RUNS
        taken += merge.size
        new = file(merge.files[0].first, merge.size, last=merge.files[-1].last)
        files = sorted([*(set(files) - set(merge.files)), new], key=lambda f: f.first)
    assert len(files) < (2 if timestep > 5_000 else MOST_RUNS)
    assert taken < 10 * 10 * 5_000


def test_a_version_names_a_bounded_number_of_files(monkeypatch):
    monkeypatch.setattr(merging, "MOST_INLINE", 10)
    files = [file(n, 1, part=f"p={n}") for n in range(20)]
    assert len(files) - len(finished(files, PLAIN, 20)) <= 10


@pytest.mark.parametrize("policy", [PLAIN, KEYED])
@given(sizes=st.lists(st.integers(1, 1200), max_size=60))
def test_every_merge_doubles_the_file_that_a_row_is_in_and_takes_neighbours(policy, sizes):
    """Until none is due; so a row is written again at most log2(all / smallest) times."""
    files: list[DataFile] = []
    for timestep, size in enumerate(sizes):
        files.append(file(timestep, size))
        while (merge := due(files, policy, timestep)) is not None:
            assert 2 * max(each.size for each in merge.files) <= merge.size
            if not policy.keyed:
                assert merge.size <= policy.target
            span = merge.files[0].first, max(each.last for each in merge.files)
            if policy.keyed:
                inside = [each for each in files if span[0] <= each.first <= span[1]]
                assert set(inside) == set(merge.files)
            new = file(span[0], merge.size, last=span[1])
            files = sorted(
                [each for each in files if each not in merge.files] + [new], key=lambda f: f.first
            )
    assert sum(each.size for each in files) == sum(sizes)
    waiting = [each for each in files if policy.keyed or not policy.is_full(each)]
    assert len(waiting) < FAN_IN * 12
