"""When a model is trained again, and how quality is counted."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.control.library.quality import (
    EARLIEST,
    AskCases,
    Cases,
    Confusion,
    confusion,
    table_of,
    text_of,
)
from rechannel.control.library.retraining import (
    CHANGING,
    SAMPLING,
    WATCHING,
    Rules,
    Updating,
    changed,
    measured,
    trained,
    tried,
)

RULES = Rules(bound=0.6, margin=0.1, least=10, patience=2, window_ms=1_000)
CASES = Cases(predicted="p", actual="a", at="at")


def found(right: int, missed: int, latest: int) -> Confusion:
    return Confusion(true_positives=right, false_negatives=missed, true_negatives=50, latest=latest)


def after(state: Updating, *all_found: Confusion) -> Updating:
    for each in all_found:
        state, _ = measured(state, each, RULES)
    return state


def test_f1_has_to_be_low_twice_in_a_row():
    low, well, between = found(2, 18, 5), found(18, 2, 6), found(11, 11, 7)
    assert (low.f1, between.f1) == (pytest.approx(0.18, abs=0.01), pytest.approx(0.667, abs=0.01))
    assert after(Updating(), low).phase == WATCHING
    assert after(Updating(), low, well, low).phase == WATCHING
    assert after(Updating(), low, low).phase == SAMPLING
    assert after(Updating(), low, between, low).phase == SAMPLING  # not well again in between
    assert after(Updating(), low, between).phase == WATCHING


def test_few_relevant_cases_say_nothing():
    assert after(Updating(), *[found(1, 8, 5)] * 10) == Updating(latest=5)


def test_a_change_is_judged_and_one_that_did_not_help_delays_the_next():
    state = changed(after(Updating(), *[found(2, 18, 500)] * 2), found(0, 0, 500))
    assert (state.phase, state.changed_at, state.updates, state.f1) == (WATCHING, 500, 1, None)
    assert state.since(RULES) == 500
    better, note = measured(state, found(18, 2, 900), RULES)
    assert note == "update 1: F1 0.18 -> 0.95"
    assert better.wait_until == EARLIEST
    worse, note = measured(state, found(1, 19, 900), RULES)
    assert note == "update 1: F1 0.18 -> 0.10, which is no better"
    assert after(worse, found(1, 19, 1_800)).phase == WATCHING
    assert after(worse, found(1, 19, 1_900)).phase == SAMPLING


def test_parameters_are_given_up_after_three_refusals():
    state = trained(after(Updating(), *[found(2, 18, 5)] * 2), {"limit": 3})
    for _ in range(3):
        assert state.phase == CHANGING
        state = tried(state)
    state = tried(state)
    assert (state.phase, state.parameters, state.low) == (WATCHING, None, 0)


booleans = st.one_of(st.none(), st.booleans())
rows = st.lists(st.tuples(booleans, booleans, st.integers(0, 20)), max_size=30)


def frame(given_rows: list[tuple[bool | None, bool | None, int]]) -> pa.Table:
    p, a, at = zip(*given_rows, strict=True) if given_rows else ((), (), ())
    return pa.table(
        {"p": pa.array(p, pa.bool_()), "a": pa.array(a, pa.bool_()), "at": pa.array(at, pa.int64())}
    )


@given(rows, st.integers(-1, 21), st.integers(0, 30))
def test_the_matrix_is_what_counting_finds_and_merges(all_rows, since, cut):
    def count(p: bool, a: bool) -> int:
        return sum(row[:2] == (p, a) and row[2] > since for row in all_rows)

    whole = confusion(CASES, frame(all_rows), since)
    assert [whole.true_positives, whole.false_positives] == [count(True, True), count(True, False)]
    assert [whole.false_negatives, whole.true_negatives] == [
        count(False, True),
        count(False, False),
    ]
    assert whole.latest == max([at for _, _, at in all_rows], default=EARLIEST)
    parts = [confusion(CASES, frame(part), since) for part in (all_rows[:cut], all_rows[cut:])]
    assert parts[0] + parts[1] == parts[1] + parts[0] == whole


@given(rows, st.integers(0, 30), st.integers(1, 10))
def test_the_latest_cases_of_parts_are_those_of_the_whole(all_rows, cut, most):
    ask = AskCases(CASES, -1, most)
    labelled = CASES.labelled(frame(all_rows), -1)
    whole = table_of(ask._latest(labelled))
    assert whole.num_rows == min(most, labelled.num_rows)
    parts = [ask._latest(CASES.labelled(frame(p), -1)) for p in (all_rows[:cut], all_rows[cut:])]
    assert table_of(ask.merge(*parts)).to_pylist() == whole.to_pylist()
    assert table_of(ask.merge(*reversed(parts))).to_pylist() == whole.to_pylist()


def test_times_may_be_timestamps():
    at = [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, 0, 0, 1, tzinfo=dt.UTC)]
    table = pa.table(
        {"p": [True, True], "a": [True, False], "at": pa.array(at, pa.timestamp("us", "UTC"))}
    )
    first = int(at[0].timestamp() * 1_000)
    assert confusion(CASES, table, first).false_positives == 1
    assert confusion(CASES, table, first).true_positives == 0
    assert table_of(text_of(table)).equals(table)
