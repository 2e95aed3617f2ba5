"""What is sent to the tasks of a stage, and what each of them makes of it."""

from __future__ import annotations

import operator
import pickle

import pytest

from rechannel.engine.program.steps import task_states
from rechannel.model.hashspace import SPACE, Intervals
from rechannel.model.routing import Routing
from rechannel.state.manifest import Manifest
from rechannel.state.merging import MergePolicy, plan_merges
from rechannel.state.run import Run
from rechannel.state.run_table import RunTable

ROUTING = Routing.even(bins=8, tasks=4)
POLICY = MergePolicy(fan=2, slice_rows=1)


def run(seq: int, task: int, *, level: int = 0) -> Run:
    clip = ROUTING.intervals_of(task)
    return Run(
        segment=f"{seq}-{task}", clip=clip, seq=seq, level=level, rows=8, size=80, span=clip.width
    )


RUNS = tuple(run(seq, task) for seq in (4, 3, 2, 1) for task in range(4))
MANIFESTS = [Manifest(RUNS), Manifest(RunTable.of(RUNS))]
FORMS = pytest.mark.parametrize("manifest", MANIFESTS, ids=["values", "columns"])


@FORMS
def test_each_task_plans_its_own_merges_of_what_it_was_sent(manifest):
    sent = pickle.loads(pickle.dumps(task_states(ROUTING, manifest, 5, POLICY)))
    assert len(sent) == ROUTING.tasks
    merged = 0
    states = list(sent)
    assert all(map(operator.is_, states, sent))  # each is made once
    for task, state in enumerate(states):
        own = ROUTING.intervals_of(task)
        assert state.own == own
        assert state.runs == manifest.within(own)
        assert state.merges == plan_merges(state.runs, own, 5, POLICY)
        merged += len(state.merges)
    assert merged


@FORMS
def test_all_hashes_that_are_to_be_rewritten_are(manifest):
    where = Intervals(((0, SPACE // 3),))
    seldom = MergePolicy(fan=64)
    states = task_states(ROUTING, manifest, 5, seldom, rewrite=where)
    merges = [merge for state in states for merge in state.merges]
    assert Intervals.of(span for merge in merges for span in merge.where) == where
    assert all(merge.seqs == (4, 3, 2, 1) and merge.bottom for merge in merges)
    assert [len(state.merges) for state in states[2:]] == [0, 0]


@FORMS
def test_runs_of_totals_are_apart_from_those_of_state(manifest):
    with_totals = Manifest((*manifest.runs, run(-1, 2, level=-1)))
    states = list(task_states(ROUTING, with_totals, 5, POLICY))
    assert [len(state.totals) for state in states] == [0, 0, 1, 0]
    assert [len(state.runs) for state in states] == [4, 4, 4, 4]


def test_what_was_made_is_not_sent():
    states = task_states(ROUTING, MANIFESTS[0], 5, POLICY)
    before = len(pickle.dumps(states))
    _ = list(states)
    assert len(pickle.dumps(states)) == before
