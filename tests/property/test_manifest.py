"""The manifest against a dict: for every place of the hash space, the newest run that holds it."""

from __future__ import annotations

import gc
import json
import pickle
from dataclasses import replace
from weakref import ref

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.kernels.tasks.report import plain
from rechannel.model.codec import decode, encode
from rechannel.model.hashspace import SPACE, Intervals
from rechannel.model.routing import Routing
from rechannel.model.spread import SpreadBin
from rechannel.state.manifest import WIDE, Edit, Manifest
from rechannel.state.run import Run
from rechannel.state.run_table import RunTable

# The twin knows 16 places; place c stands for [c, c + 1) * STEP.
PLACES = 16
STEP = SPACE // PLACES
SETS = st.frozensets(st.integers(0, PLACES - 1), min_size=1)
FORMS = pytest.mark.parametrize(
    "empty", [Manifest(), Manifest(RunTable.of(()))], ids=["values", "columns"]
)
"""Manifests of few runs hold them one by one, those of many as columns."""


def of(places: frozenset[int]) -> Intervals:
    return Intervals.of((c * STEP, (c + 1) * STEP) for c in places)


def run(seq: int, places: frozenset[int], name: str = "a") -> Run:
    clip = of(places)
    return Run(
        segment=f"segments/{name}.arrow",
        clip=clip,
        seq=seq,
        level=0,
        rows=10 * len(places),
        size=100,
        span=clip.width,
    )


@st.composite
def histories(draw) -> list[tuple[Edit, dict[int, list[str]]]]:
    """Edits, each with what the twin says after it: place -> segments there, newest first.

    Every timestep writes a run. Some also merge: in some places, one run replaces runs that are
    neighbours in age there, and takes the place of the newest of them.
    """
    twin: dict[int, list[tuple[int, str]]] = {c: [] for c in range(PLACES)}
    story = []
    for seq in range(1, draw(st.integers(1, 12)) + 1):
        written = draw(SETS)
        retire, add = [], [run(seq, written, f"write-{seq}")]
        known = sorted({s for held in twin.values() for s, _ in held})
        if known and draw(st.booleans()):
            oldest, newest = sorted(draw(st.tuples(*[st.sampled_from(known)] * 2)))
            where = draw(SETS)
            retire.append((tuple(range(oldest, newest + 1)), of(where)))
            add.append(run(newest, where, f"merge-{seq}"))
            for c in where:
                left = [held for held in twin[c] if not oldest <= held[0] <= newest]
                twin[c] = sorted([*left, (newest, f"merge-{seq}")], reverse=True)
        for c in written:
            twin[c] = [(seq, f"write-{seq}"), *twin[c]]
        after = {c: [f"segments/{name}.arrow" for _, name in held] for c, held in twin.items()}
        story.append((Edit(retire=tuple(retire), add=tuple(add)), after))
    return story


@FORMS
@given(history=histories())
def test_every_place_sees_the_runs_that_count_there(empty, history):
    manifest = empty
    for edit, twin in history:
        manifest = manifest.apply(edit)
        seen = {c: manifest.within(of(frozenset([c]))) for c in range(PLACES)}
        assert {c: [part.segment for part in parts] for c, parts in seen.items()} == twin
        assert manifest.segments() == {name for names in twin.values() for name in names}


@FORMS
@given(history=histories(), window=SETS)
def test_within_is_the_manifest_seen_through_a_window(empty, history, window):
    manifest = empty
    for edit, _ in history:
        manifest = manifest.apply(edit)
    seen = manifest.within(of(window))
    assert [r.seq for r in seen] == sorted((r.seq for r in seen), reverse=True)
    for part in seen:
        whole = next(r for r in manifest.runs if r.segment == part.segment)
        assert part.clip == whole.clip.intersect(of(window))
    assert Manifest(seen).within(of(window)) == seen


@given(histories())
def test_json_is_read_as_it_was_written(history):
    for edit, _ in history:
        assert decode(Edit, json.loads(json.dumps(encode(edit)))) == edit


@given(SETS, SETS)
def test_expected_rows_follow_the_width(places, window):
    made = run(1, places)
    assert made.rows_in(of(window)) == pytest.approx(10 * len(places & window))


def test_unclipped_runs_are_short_in_json():
    whole = run(1, frozenset(range(PLACES)))
    assert encode(whole)[1] is None
    assert decode(Run, encode(whole)) == whole


@FORMS
def test_an_edit_does_not_change_the_manifest_it_is_applied_to(empty):
    before = empty.apply(Edit(add=(run(1, frozenset({0})),)))
    after = before.apply(Edit(retire=(((1,), Intervals.everything()),)))
    assert [r.seq for r in before.runs] == [1]
    assert after.runs == ()


@FORMS
@given(
    story=histories(),
    owners=st.lists(st.integers(0, 3), min_size=PLACES, max_size=PLACES),
    bins=st.integers(1, PLACES),
    spread=st.integers(0, PLACES - 1),
)
def test_each_task_gets_what_meets_its_hashes(empty, story, owners, bins, spread):
    starts = tuple(c * PLACES // bins * STEP for c in range(bins))
    routing = Routing(starts=starts, owners=tuple(owners[:bins]), tasks=5)
    if spread < bins:  # its owner has it apart from the bins beside it
        lo, hi = routing.span(spread)
        tasks = (owners[spread], 4)
        routing = routing.with_spreads([SpreadBin(lo=lo, hi=hi, tasks=tasks, side=0)])
    manifest = empty
    for edit, _ in story:
        manifest = manifest.apply(edit)
    for task, held in enumerate(manifest.by_task(routing)):
        assert held.runs == manifest.within(routing.intervals_of(task))
    totals = Manifest(tuple(replace(run, seq=-run.seq, level=-1) for run in manifest.runs))
    if manifest.runs and empty.runs.__class__ is RunTable:
        totals = empty.apply(Edit(add=tuple(totals.runs)))
    for task, held in enumerate(totals.by_task(routing)):
        assert (held.state, held.no_state) == ((), totals.totals(routing.intervals_of(task)))


TIMES = st.one_of(st.none(), st.tuples(st.integers(-(2**63), 5), st.integers(6, 2**63 - 1)))


@given(
    histories(),
    st.lists(
        st.fixed_dictionaries(
            {
                "due": TIMES,
                "awaited": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
                "processing": TIMES,
                "digest": st.one_of(st.none(), st.text()),
                "level": st.integers(-2, 30),
                "span": st.sampled_from([0, 1, STEP, SPACE]),
            }
        ),
        min_size=12,
        max_size=12,
    ),
)
def test_both_forms_hold_the_same_runs(history, times):
    """Few runs and many are the same values after the same edits, and as they are sent to tasks."""
    values, columns = Manifest(), Manifest(RunTable.of(()))
    for (made, _), each in zip(history, times, strict=False):
        edit = replace(made, add=tuple(replace(run, **each) for run in made.add))
        values, columns = values.apply(edit), columns.apply(edit)
        assert isinstance(values.runs, tuple)
        assert isinstance(columns.runs, RunTable)
        assert tuple(columns.runs) == values.runs
        assert columns.runs == values.runs
        assert hash(columns) == hash(values)
        assert columns.size == values.size
        assert (columns.state, columns.no_state) == (values.state, values.no_state)
        assert columns.segments() == values.segments()
        assert pickle.loads(pickle.dumps(columns)) == pickle.loads(pickle.dumps(values))
        for after, until in ((-(2**63), 2**63 - 1), (0, 5), (5, 6), (3, 3)):
            assert list(columns.waiting(after, until)) == list(values.waiting(after, until))
            assert list(columns.ringing(after, until)) == list(values.ringing(after, until))
            for seq in (0, len(values.runs)):
                assert columns.changed_since(seq, after) == values.changed_since(seq, after)
        assert [columns.runs[i] for i in range(len(values.runs))] == list(values.runs)
        assert columns.runs[1:][::-1] == values.runs[1:][::-1]


def test_many_runs_are_kept_as_columns():
    few = Manifest().apply(Edit(add=tuple(run(seq, frozenset({0})) for seq in range(WIDE))))
    assert isinstance(few.runs, tuple)
    many = few.apply(Edit(add=(run(WIDE, frozenset({0})),)))
    assert isinstance(many.runs, RunTable)
    assert [r.seq for r in many.runs] == list(range(WIDE, -1, -1))


def test_an_edit_that_is_applied_twice_is_carried_out_once():
    first, edit = Edit(add=(run(1, frozenset({0})),)), Edit(add=(run(2, frozenset({0})),))
    made = Manifest().apply(first)
    assert Manifest().apply(first) is made  # the loop and the journal each begin with nothing
    after = made.apply(edit)
    assert made.apply(edit) is after
    assert [each.seq for each in Manifest().apply(edit).runs] == [2]
    assert [each.seq for each in made.apply(edit).runs] == [2, 1]
    kept = ref(after)
    del after
    gc.collect()
    assert kept() is None  # what waits to be written keeps no state alive


def test_an_edit_is_written_without_what_it_made():
    edit = Edit(add=(run(1, frozenset({0})),))
    before = encode(edit), msgspec.json.encode(edit, enc_hook=plain)
    made = Manifest().apply(edit)
    assert (encode(edit), msgspec.json.encode(edit, enc_hook=plain)) == before
    assert pickle.loads(pickle.dumps(edit)) == edit
    assert made.runs == edit.add
