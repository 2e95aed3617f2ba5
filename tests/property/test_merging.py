"""Merging against a dict: whatever is merged when, and wherever bins move, no key's state changes.

The twin of the state is a dict from key to value. The twin of a segment is a dict as well, and a
merge is what it says: newest first, of one key the first stays. The hash space has 16 places, and a
key lies in one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.model.hashspace import SPACE, Intervals
from rechannel.state.manifest import Edit, Manifest
from rechannel.state.merging import APART, MergePolicy, plan_merges
from rechannel.state.run import Run

PLACES = 16
STEP = SPACE // PLACES
Key = tuple[int, int]
"""(place, which key there); which one it is is also the time it waits for."""

KEYS = [(place, number) for place in range(PLACES) for number in range(4)]
LASTS = st.sampled_from([None, 1, APART, 2 * APART, 1_000_000])
POLICIES = st.builds(MergePolicy, fan=st.integers(2, 4), slice_rows=st.sampled_from([1, 3, 100]))


def of(places: set[int]) -> Intervals:
    return Intervals.of((c * STEP, (c + 1) * STEP) for c in places)


def holds(where: Intervals, key: Key) -> bool:
    """Whether a key lies there: the middle of its place, or a little above it for the second one."""
    at = key[0] * STEP + STEP // 2 + key[1] * STEP // 16
    return any(lo <= at < hi for lo, hi in where)


@dataclass
class World:
    """Segments, the manifest that names them, and what they must amount to. None is a tombstone."""

    segments: dict[str, dict[Key, int | None]] = field(default_factory=dict)
    manifest: Manifest = field(default_factory=Manifest)
    expected: dict[Key, int] = field(default_factory=dict)
    merges: int = 0

    def rows(self, run: Run, where: Intervals) -> dict[Key, int | None]:
        there = run.clip.intersect(where)
        return {k: v for k, v in self.segments[run.segment].items() if holds(there, k)}

    def newest(self, runs: list[Run], where: Intervals) -> dict[Key, int | None]:
        """Of every key, the row of the first run that has one."""
        found: dict[Key, int | None] = {}
        for run in runs:
            found = self.rows(run, where) | found
        return found

    def write(
        self, rows: dict[Key, int | None], where: Intervals, seq: int, level: int
    ) -> tuple[Run, ...]:
        if not rows:
            return ()
        name = f"s{len(self.segments)}"
        self.segments[name] = rows
        run = Run(
            segment=name,
            clip=where,
            seq=seq,
            level=level,
            rows=len(rows),
            size=1,
            span=where.width,
            due=(min(time for _, time in rows), max(time for _, time in rows)),
        )
        return (run,)

    def timestep(
        self,
        number: int,
        own: Intervals,
        changes: dict[Key, int | None],
        policy: MergePolicy,
        lasts: int | None = None,
    ) -> Edit:
        """What one task does in one timestep."""
        runs = list(self.manifest.within(own))
        mine = {key: value for key, value in changes.items() if holds(own, key)}
        merges = plan_merges(runs, own, number, policy, lasts)
        retire, add = [], [*self.write(mine, own, number, 0)]
        for merge in merges:
            self.merges += 1
            parts = [run for run in runs if run.seq in merge.seqs]
            rows = self.newest(parts, merge.where)
            if merge.bottom:
                rows = {key: value for key, value in rows.items() if value is not None}
            add += self.write(rows, merge.where, max(merge.seqs), merge.level)
            retire.append((merge.seqs, merge.where))
        return Edit(retire=tuple(retire), add=tuple(add))

    def rewrite(self, number: int, own: Intervals, changes: dict[Key, int | None]) -> Edit:
        """One task writes all it knows into one run."""
        runs = list(self.manifest.within(own))
        mine = {key: value for key, value in changes.items() if holds(own, key)}
        rows = mine | {k: v for k, v in self.newest(runs, own).items() if k not in mine}
        whole = {key: value for key, value in rows.items() if value is not None}
        seqs = tuple(sorted({run.seq for run in runs}, reverse=True))
        retire = ((seqs, own),) if seqs else ()
        return Edit(retire=retire, add=self.write(whole, own, number, 30))

    def check(self) -> None:
        found = self.newest(list(self.manifest.runs), Intervals.everything())
        live = {key: value for key, value in found.items() if value is not None}
        assert live == self.expected


@st.composite
def owners(draw: st.DrawFn) -> list[set[int]]:
    """Places of each of up to three tasks."""
    tasks = draw(st.integers(1, 3))
    owner = draw(st.lists(st.integers(0, tasks - 1), min_size=PLACES, max_size=PLACES))
    owned = [{place for place in range(PLACES) if owner[place] == task} for task in range(tasks)]
    return [places for places in owned if places]


CHANGES = st.dictionaries(
    st.sampled_from(KEYS), st.one_of(st.integers(0, 99), st.none()), max_size=len(KEYS)
)


@given(st.data())
def test_merging_changes_nothing(data: st.DataObject) -> None:
    world = World()
    placed = data.draw(owners())
    policy, lasts = data.draw(POLICIES), data.draw(LASTS)
    for number in range(1, data.draw(st.integers(1, 25)) + 1):
        if data.draw(st.integers(0, 4)) == 0:
            placed = data.draw(owners())
        if data.draw(st.integers(0, 9)) == 0:
            policy = data.draw(POLICIES)
        changes = data.draw(CHANGES)
        world.expected.update({k: v for k, v in changes.items() if v is not None})
        for key in [key for key, value in changes.items() if value is None]:
            world.expected.pop(key, None)
        edits = []
        for places in placed:
            own = of(places)
            rewrites = data.draw(st.integers(0, 5)) == 0
            edits.append(
                world.rewrite(number, own, changes)
                if rewrites
                else world.timestep(number, own, changes, policy, lasts)
            )
        for edit in edits:
            world.manifest = world.manifest.apply(edit)
        world.check()


@st.composite
def histories(draw: st.DrawFn) -> list[Run]:
    """Runs of timesteps, newest first; a timestep may write several, each with times and a level of its own."""
    runs = []
    for seq in range(draw(st.integers(2, 9)), 0, -1):
        inner = draw(st.sets(st.integers(1, 7), max_size=2))
        for lo, hi in pairwise([0, *sorted(inner), 8]):
            first = seq * 20 + draw(st.integers(0, 40))
            run = Run(
                segment=f"s{seq}.{lo}",
                clip=of(set(range(2 * lo, 2 * hi))),
                seq=seq,
                level=draw(st.sampled_from([0, 0, 0, 1, 2])),
                rows=1000,
                size=10_000,
                span=2 * (hi - lo) * STEP,
                due=(first, first + draw(st.integers(60, 120))),
            )
            runs.append(run)
    return runs


@given(
    histories(),
    st.sampled_from([None, 100, 10_000, 100_000]),
    st.builds(MergePolicy, fan=st.sampled_from([2, 8]), slice_rows=st.sampled_from([1, 1 << 16])),
)
def test_no_two_merges_take_the_same_run_at_the_same_hashes(
    runs: list[Run], lasts: int | None, policy: MergePolicy
) -> None:
    for number in range(8):
        taken: dict[str, Intervals] = {}
        for merge in plan_merges(runs, Intervals.everything(), number, policy, lasts):
            for run in runs:
                where = run.clip.intersect(merge.where)
                if run.seq in merge.seqs and where:
                    before = taken.get(run.segment, Intervals.nothing())
                    assert not before.intersect(where)
                    taken[run.segment] = before.union(where)


def test_bins_of_another_past_do_not_let_old_rows_overtake_new_ones() -> None:
    """Level 0 reaches further back in one bin than in another: what lies between goes along."""
    world = World()
    left, right = of({0}), of({1})
    key = (0, 0)
    for seq, level, where, rows in [
        (5, 0, left, {(0, 1): 5}),
        (4, 1, left, {key: 4}),
        (3, 2, left, {key: 3}),
        (6, 0, right, {(1, 0): 6}),
        (3, 0, right, {(1, 0): 3}),
    ]:
        (run,) = world.write(rows, where, seq, level)
        world.manifest = world.manifest.apply(Edit(add=(run,)))
    world.expected = {(0, 1): 5, key: 4, (1, 0): 6}
    own = left.union(right)
    policy = MergePolicy(fan=2, slice_rows=100)
    for number in range(7, 15):
        world.manifest = world.manifest.apply(world.timestep(number, own, {}, policy))
        world.check()
    assert world.merges > 0


@pytest.mark.parametrize(("fan", "slice_rows"), [(1, 1), (0, 1), (2, 0)])
def test_a_policy_that_cannot_work_is_refused(fan: int, slice_rows: int) -> None:
    with pytest.raises(ValueError, match="fan of at least 2"):
        MergePolicy(fan=fan, slice_rows=slice_rows)
