"""The plan of merges: which slice is due, and what merging costs over thousands of timesteps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from statistics import mean

import pytest

from rechannel.model.codec import encode
from rechannel.model.hashspace import SPACE, Intervals
from rechannel.state.manifest import Edit, Manifest
from rechannel.state.merging import APART, BASE_LEVEL, Merge, MergePolicy, plan_merges, portion
from rechannel.state.run import Run

EVERYTHING = Intervals.everything()
PROBES = (1, SPACE // 3, SPACE // 2, SPACE - 1)


def run(
    seq: int,
    level: int = 0,
    rows: int = 100,
    clip: Intervals = EVERYTHING,
    due: tuple[int, int] | None = None,
) -> Run:
    return Run(
        segment=f"s{seq}.{level}",
        clip=clip,
        seq=seq,
        level=level,
        rows=rows,
        size=1,
        span=clip.width,
        due=due,
    )


def planned(runs: list[Run], timestep: int, policy: MergePolicy) -> tuple[Merge, ...]:
    return plan_merges(sorted(runs, key=lambda r: -r.seq), EVERYTHING, timestep, policy)


# What is planned -----------------------------------------------------------------------------------


def test_portions_tile_what_they_are_cut_from():
    own = Intervals.of([(0, 10), (20, 21), (40, 67)])
    pieces = [portion(own, i, 5) for i in range(5)]
    union = Intervals.nothing()
    for piece in pieces:
        assert not union.intersect(piece)
        union = union.union(piece)
    assert union == own
    assert all(abs(piece.width - own.width / 5) <= 1 for piece in pieces)


def test_nothing_new_is_nothing_to_merge():
    assert planned([], 1, MergePolicy()) == ()
    assert planned([run(1, BASE_LEVEL), run(2, 3)], 1, MergePolicy()) == ()


def parted(seq: int, due: dict[tuple[int, int], tuple[int, int]]) -> list[Run]:
    """Runs that a timestep wrote for eighths of the hashes, and what they wait for."""
    eighth = SPACE // 8
    return [
        run(seq, rows=1000, clip=Intervals.of([(lo * eighth, hi * eighth)]), due=when)
        for (lo, hi), when in due.items()
    ]


def test_runs_of_one_timestep_with_times_of_their_own_are_merged_once():
    """The left part of timestep 2 goes with what is younger, the right part with what is older."""
    runs = [
        *parted(4, {(0, 8): (120, 200)}),
        *parted(3, {(0, 8): (120, 200)}),
        *parted(2, {(0, 4): (120, 200), (4, 8): (40, 120)}),
        *parted(1, {(0, 8): (40, 120)}),
    ]
    merges = plan_merges(runs, EVERYTHING, 0, MergePolicy(), 10_000)
    left, right = Intervals.of([(0, SPACE // 2)]), Intervals.of([(SPACE // 2, SPACE)])
    taken = [(merge.seqs, where) for merge in merges for where in merge.where]
    assert sorted(taken, reverse=True) == [
        ((4, 3, 2), left.spans[0]),
        ((4, 3), right.spans[0]),
        ((2, 1), right.spans[0]),
    ]


def test_a_dense_part_of_a_timestep_does_not_make_timesteps_seem_larger():
    """A million rows at one hash and few elsewhere weigh what they weigh in one run."""
    hot, rest = Intervals.of([(0, SPACE // 1000)]), Intervals.of([(SPACE // 1000, SPACE)])
    old = run(1, BASE_LEVEL, rows=100_000_000)
    whole = [run(seq, rows=1_010_000) for seq in range(9, 1, -1)]
    parts = [
        run(seq, rows=rows, clip=clip)
        for seq in range(9, 1, -1)
        for rows, clip in ((1_000_000, hot), (10_000, rest))
    ]
    policy = MergePolicy(fan=4, slice_rows=1 << 12)
    for timestep in range(64):
        plans = [
            [
                (m.seqs, m.level, m.where)
                for m in plan_merges([*each, old], EVERYTHING, timestep, policy)
            ]
            for each in (whole, parts)
        ]
        assert plans[0]
        assert plans[0] == plans[1], timestep


def test_one_run_is_not_merged():
    assert all(planned([run(1)], t, MergePolicy(fan=2, slice_rows=1)) == () for t in range(8))


HOUR = 3_600_000_000


def merged_seqs(dues: list[tuple[int, int]], lasts_us: int | None) -> list[tuple[int, ...]]:
    """Which runs of level 0 a full sweep merges; the newest one waits for dues[0]."""
    runs = [run(len(dues) - i, due=due) for i, due in enumerate(dues)]
    policy = MergePolicy(fan=2, slice_rows=10_000)
    return [merge.seqs for merge in plan_merges(runs, EVERYTHING, 0, policy, lasts_us)]


def test_what_goes_at_different_times_is_not_merged():
    dues = [(at, at) for at in (40, 30, 20, 10)]
    assert merged_seqs(dues, None) == [(4, 3, 2, 1)]
    assert merged_seqs(dues, 1) == []
    assert merged_seqs(dues, APART * 9) == []


def test_what_goes_at_about_the_same_time_is_merged():
    dues = [(at, at) for at in (40, 30, 20, 10)]
    assert merged_seqs(dues, APART * 10) == [(4, 3), (2, 1)]
    assert merged_seqs(dues, HOUR) == [(4, 3, 2, 1)]
    assert merged_seqs([(9, 9), (9, 9), (5, 5), (5, 5)], 1) == [(4, 3), (2, 1)]


def test_a_run_of_many_times_is_merged_with_those_within_them():
    assert merged_seqs([(90, 90), (20, 40), (30, 30), (10, 10)], 1) == [(3, 2)]


def test_a_sweep_passes_every_hash_once_in_a_period():
    policy = MergePolicy(fan=4, slice_rows=1)
    runs = [run(seq) for seq in range(1, 4)]
    merges = [merge for t in range(4, 8) for merge in planned(runs, t, policy)]
    union = Intervals.nothing()
    for merge in merges:
        assert not union.intersect(merge.where)
        union = union.union(merge.where)
    assert union == EVERYTHING


def test_small_slices_are_taken_together_and_less_often():
    runs = [run(seq) for seq in range(1, 4)]
    small, large = MergePolicy(fan=4, slice_rows=1), MergePolicy(fan=4, slice_rows=10_000)
    assert [len(planned(runs, t, small)) for t in range(4)] == [1, 1, 1, 1]
    assert [len(planned(runs, t, large)) for t in range(4)] == [1, 0, 0, 0]


def test_the_last_sweep_takes_everything_older_and_is_the_bottom():
    (merge,) = planned(
        [run(3), run(2), run(1, BASE_LEVEL)], 0, MergePolicy(fan=8, slice_rows=10_000)
    )
    assert merge.seqs == (3, 2, 1)
    assert merge.bottom
    assert merge.level == BASE_LEVEL


def test_a_sweep_of_young_runs_leaves_old_ones_and_their_tombstones():
    runs = [run(4), run(3), run(2, 1), run(1, BASE_LEVEL, rows=100_000)]
    merges = [m for t in range(8) for m in planned(runs, t, MergePolicy(fan=2, slice_rows=10_000))]
    (first,) = {(m.seqs, m.level, m.bottom) for m in merges if 4 in m.seqs}
    assert first == ((4, 3), 1, False)


def test_only_a_task_s_own_hashes_are_merged():
    own = Intervals.of([(SPACE // 4, SPACE // 2)])
    runs = [run(seq, clip=own) for seq in (2, 1)]
    (merge,) = plan_merges(runs, own, 0, MergePolicy(fan=2, slice_rows=10_000))
    assert merge.where == own


# What it costs ---------------------------------------------------------------------------------------


@dataclass
class Costs:
    """Rows merged per timestep, runs that a key may be looked up in, and runs in the manifest."""

    rows: list[float]
    depths: list[int]
    runs: list[int]


@cache
def simulate(keys: int, batch: int, policy: MergePolicy, timesteps: int) -> Costs:
    """A state of so many keys, of which every timestep changes `batch`, evenly spread."""
    manifest = Manifest((run(0, BASE_LEVEL, keys),))
    costs = Costs([], [], [])
    for t in range(1, timesteps + 1):
        runs, add, retire, rows = manifest.runs, [run(t, rows=batch)], [], 0.0
        for number, merge in enumerate(plan_merges(runs, EVERYTHING, t, policy)):
            met = sum(r.rows_in(merge.where) for r in runs if r.seq in merge.seqs)
            left = min(met, keys * merge.where.width / SPACE)
            merged = run(max(merge.seqs), merge.level, max(1, round(left)), merge.where)
            add.append(merged)
            retire.append((merge.seqs, merge.where))
            rows += met
            assert number < 20
        manifest = manifest.apply(Edit(retire=tuple(retire), add=tuple(add)))
        costs.rows.append(rows)
        costs.runs.append(len(manifest.runs))
        costs.depths.append(
            max(sum(_holds(r.clip, probe) for r in manifest.runs) for probe in PROBES)
        )
    return costs


def _holds(clip: Intervals, probe: int) -> bool:
    return any(lo <= probe < hi for lo, hi in clip)


KEYS, BATCH = 2_500, 100


@pytest.mark.parametrize(
    ("fan", "slice_rows", "timesteps"), [(3, 1, 300), (3, 200, 2_000), (8, 200, 1_000)]
)
def test_merging_costs_about_the_same_every_timestep(fan: int, slice_rows: int, timesteps: int):
    costs = simulate(KEYS, BATCH, MergePolicy(fan=fan, slice_rows=slice_rows), timesteps)
    steady = costs.rows[timesteps // 3 :]
    # Rows that several runs hold count several times until they meet: one sweep more than keys alone would need.
    sweeps = math.ceil(math.log(KEYS / BATCH, fan)) + 1
    assert mean(steady) <= (sweeps + 1) * BATCH
    assert max(steady) <= 3 * mean(steady)


@pytest.mark.parametrize(("fan", "slice_rows", "timesteps"), [(3, 200, 2_000), (8, 200, 1_000)])
def test_runs_stay_as_many_as_they_are(fan: int, slice_rows: int, timesteps: int):
    costs = simulate(KEYS, BATCH, MergePolicy(fan=fan, slice_rows=slice_rows), timesteps)
    fifth = timesteps // 5
    early, late = costs.runs[fifth : 2 * fifth], costs.runs[-fifth:]
    assert mean(late) <= 1.05 * mean(early)
    sweeps = math.ceil(math.log(KEYS / BATCH, fan)) + 1
    assert max(costs.depths[fifth:]) <= 2 * fan * sweeps


def test_lumps_are_no_larger_than_the_state():
    """With slices as large as the state, all is merged at once, but no more than that."""
    costs = simulate(KEYS, BATCH, MergePolicy(fan=3, slice_rows=100_000), 300)
    assert max(costs.runs) <= 40
    assert mean(costs.rows) <= 6 * BATCH


# Where rows are rare ---------------------------------------------------------------------------------


@pytest.mark.parametrize("hashes", [1, 3, 20])
@pytest.mark.parametrize("every", [1, 9])
def test_parts_without_rows_do_not_make_runs_pile_up(hashes: int, every: int):
    """A few keys leave most slices empty: a merge there writes nothing, and still passes the runs by."""
    policy = MergePolicy(fan=4, slice_rows=8)
    places = [SPACE * (3 * i + 1) // (3 * hashes) for i in range(hashes)]
    manifest = Manifest()
    most, largest, oldest = [0, 0], [0, 0], 0
    for t in range(1, 601):
        add = [run(t)] if t % every == 0 else []
        retire, merged = [], plan_merges(manifest.runs, EVERYTHING, t, policy)
        for merge in merged:
            some = sum(_holds(merge.where, place) for place in places)
            if some:
                add.append(run(max(merge.seqs), merge.level, 50 * some, merge.where))
            retire.append((merge.seqs, merge.where))
        manifest = manifest.apply(Edit(retire=tuple(retire), add=tuple(add)))
        half = t > 300
        most[half] = max(most[half], len(manifest.runs))
        largest[half] = max(largest[half], len(str(encode(manifest))))
        fresh = [r.seq for r in manifest.runs if r.level == 0]
        oldest = max(oldest, t - min(fresh, default=t))
    assert most[1] <= 1.2 * most[0] + 4
    assert most[0] <= 30 + 4 * hashes
    assert largest[1] <= 1.3 * largest[0]
    assert oldest <= 2 * policy.fan * every


# After moves -----------------------------------------------------------------------------------------

BINS = 64


def test_bins_of_other_histories_do_not_make_merging_dearer():
    """A bin a timestep moves from one task to the other: a sweep then passes some hashes by, which stay behind."""
    policy = MergePolicy(fan=8, slice_rows=2_000)
    edges = [SPACE * number // BINS for number in range(BINS + 1)]
    owners = [number // (BINS // 2) for number in range(BINS)]
    rows, batch = 250_000, 5_000
    manifest = Manifest((run(0, BASE_LEVEL, rows),))
    merged: list[float] = []
    most = 0
    for t in range(1, 300):
        moving = range(150, 150 + BINS // 4)
        if t in moving:
            owners[BINS // 4 + t - moving.start] = 1
        edits, worst = [], 0.0
        for task in (0, 1):
            own = Intervals.of((edges[b], edges[b + 1]) for b in range(BINS) if owners[b] == task)
            runs = manifest.within(own)
            add, retire, read = [run(t, 0, batch * own.width // SPACE, own)], [], 0.0
            merges = plan_merges(runs, own, t, policy)
            for merge in merges:
                met = sum(r.rows_in(merge.where) for r in runs if r.seq in merge.seqs)
                left = max(1, round(min(met, rows * merge.where.width / SPACE)))
                add.append(run(max(merge.seqs), merge.level, left, merge.where))
                retire.append((merge.seqs, merge.where))
                read += met
            edits.append(Edit(retire=tuple(retire), add=tuple(add)))
            worst = max(worst, read * SPACE / 2 / own.width)
            most = max(most, len(merges))
        for edit in edits:
            manifest = manifest.apply(edit)
        merged.append(worst)
    assert max(merged[149:]) <= 1.5 * max(merged[70:149])
    # And each history does not get files of its own where they have much in common.
    assert most <= 8
