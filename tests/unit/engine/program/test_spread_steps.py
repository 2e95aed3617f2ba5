"""What the tasks of a spread bin receive of its state, and the times of the runs that they write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rechannel.engine.program.steps import task_states, with_joint_times
from rechannel.kernels.protocol.program import SharedState
from rechannel.model.configuration import Configuration, OperatorConfiguration
from rechannel.model.hashspace import SPACE, Intervals
from rechannel.model.routing import Routing
from rechannel.model.spread import Share, SpreadBin
from rechannel.reconfigure.steps import Sizes, route
from rechannel.reconfigure.topology.pruning import meta_topology
from rechannel.reconfigure.topology.values import Channels
from rechannel.state.manifest import Edit, Manifest
from rechannel.state.merging import MergePolicy
from rechannel.state.run import Run

BARE = Routing(starts=(0, 100, 101, 500), owners=(0, 1, 2, 3), tasks=4)
HOT = SpreadBin(lo=100, hi=101, tasks=(1, 3), side=0)
BIN = Intervals(((100, 101),))


def run(seq: int, clip: Intervals | None = None, name: str = "", **more: object) -> Run:
    where = Intervals.everything() if clip is None else clip
    whole = {"level": 0, "rows": 10, "size": 100, "span": where.width, **more}
    return Run(segment=name or f"s{seq}", clip=where, seq=seq, **whole)  # type: ignore[arg-type]


MANIFEST = Manifest((run(3), run(2, BIN), run(1)))


def state(routing: Routing, task: int):
    return task_states(routing, MANIFEST, 4, MergePolicy())[task]


def test_all_tasks_of_a_spread_bin_read_all_of_its_state():
    routing = BARE.with_spreads([HOT])
    for task, place in ((1, 0), (3, 1)):
        (shared,) = state(routing, task).shared
        assert shared == SharedState(
            own=BIN, share=Share(side=0, place=place, of=2), runs=MANIFEST.within(BIN)
        )
        assert [one.seq for one in shared.runs] == [3, 2, 1]
    assert [state(routing, task).shared for task in (0, 2)] == [(), ()]


def test_only_the_owner_merges_and_owns():
    routing = BARE.with_spreads([HOT])
    for task in range(4):
        assert replace(state(routing, task), shared=()) == state(BARE, task)


@pytest.mark.parametrize(
    ("old", "new"),
    [((), (HOT,)), ((HOT,), ()), ((HOT,), (replace(HOT, tasks=(1, 2)),))],
)
def test_unaffected_tasks_read_what_they_read_before(old, new):
    before, after = (
        Configuration(
            operators={"pairs": OperatorConfiguration(tasks=4, routing=BARE.with_spreads(spreads))}
        )
        for spreads in (old, new)
    )
    found = meta_topology(Channels(), before, after, route(before, after, Sizes()).moves).of(
        "pairs"
    )
    assert found.unaffected
    for task in range(4):
        same = state(BARE.with_spreads(old), task) == state(BARE.with_spreads(new), task)
        assert same or task not in found.unaffected
    touched = {task for one in (*old, *new) for task in one.tasks}
    assert set(found.unaffected) == set(range(4)) - touched


def test_runs_of_a_spread_bin_have_joint_times():
    mine = run(7, BIN, "a", due=(5, 20))
    theirs = run(7, BIN, "b", due=(3, 9), awaited=8)
    merged = run(6, BIN, "c", due=(1, 2))
    beside = run(7, Intervals(((101, SPACE),)), "d", due=(0, 99))
    edit = with_joint_times(Edit(add=(mine, theirs, merged, beside)), [HOT])
    assert [one.due for one in edit.add] == [(3, 20), (3, 20), (1, 2), (0, 99)]
    assert [one.awaited for one in edit.add] == [None, None, None, None]
    waits = replace(mine, awaited=4)
    edit = with_joint_times(Edit(add=(waits, theirs)), [HOT])
    assert [(one.due, one.awaited) for one in edit.add] == [((3, 20), 8)] * 2


def test_runs_without_times_stay_without():
    kept = Edit(add=(run(7, BIN, "a"), run(7, BIN, "b", due=(1, 2))))
    assert with_joint_times(kept, [HOT]) == kept
