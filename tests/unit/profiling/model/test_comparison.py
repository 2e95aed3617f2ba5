"""What changed between two runs, in seconds that add up."""

from dataclasses import replace

import polars as pl
import pytest

import rechannel as rc
from rechannel.profiling.model.analysis import ProfileOptions
from rechannel.profiling.model.comparison import UNEXPLAINED, matched
from rechannel.profiling.model.trace import Activities, Messages, Names
from rechannel.profiling.reading import analyse_trace
from tests.unit.profiling.model.test_findings import rounds

OPTIONS = ProfileOptions(window=5.0)
NS = 1_000_000_000


def analysed(works, plan, *, operator="count", application="orders", steps=20):
    made = rounds(works, plan, steps)
    names = Names(workers=made.names.workers, operators=[operator], kinds=made.names.kinds)
    found = analyse_trace(replace(made, names=names), f"{application}, Spark 4.3.0", OPTIONS)
    return replace(found, application=application)


def seconds(frame, name):
    [row] = frame.filter(pl.coalesce("name", "in_a") == name).iter_rows(named=True)
    return row


def test_the_parts_add_up_to_the_runs():
    a, b = analysed((20, 20), 3), analysed((30, 20), 3)
    found = rc.compare_profiles(a, b)
    # A round takes its work, its plan and two messages, in tenths of a second.
    assert found.seconds == pytest.approx((20 * 2.5, 20 * 3.5))
    assert found.difference == pytest.approx(20)
    assert found.slower == pytest.approx(0.4)
    for frame in (found.by_operator, found.by_activity):
        assert frame["seconds_a"].sum() == pytest.approx(50)
        assert frame["seconds_b"].sum() == pytest.approx(70)
        assert frame["difference"].to_list() == pytest.approx(
            (frame["seconds_b"] - frame["seconds_a"]).to_list()
        )
    # All that changed is the work of `count`.
    row = seconds(found.by_operator, "count")
    assert row["difference"] == pytest.approx(20, abs=2)
    assert (row["work_a"], row["work_b"]) == pytest.approx((80, 100))
    assert found.by_operator["name"][0] == "count"
    assert found.by_activity["name"][0] == "processing"


def test_the_text_says_what_got_slower():
    a, b = analysed((20, 20), 3), analysed((40, 40), 3)
    found = rc.compare_profiles(a, b)
    assert found.text.startswith("B takes 40 s longer than A (90 s instead of 50 s, +80 %).")
    assert "of that are in 'count'" in found.text
    back = rc.compare_profiles(b, a)
    assert back.text.startswith("B takes 40 s less than A (50 s instead of 90 s, -44 %).")


def test_a_part_that_got_faster_while_the_run_got_slower_is_told():
    # A round of A takes 20 + 13 + 2, a round of B 40 + 3 + 2 tenths.
    found = rc.compare_profiles(analysed((20, 20), 13), analysed((40, 40), 3))
    assert found.difference == pytest.approx(20)
    # More than the whole difference is in one part, so it is no part `of that`.
    assert "'count' takes" in found.text
    # A kind of activity stands without quotes.
    assert "Scheduling takes" in found.text
    assert " less (" in found.text


def test_equal_runs_are_called_equal():
    a = analysed((20, 20), 3)
    found = rc.compare_profiles(a, analysed((20, 20), 3))
    assert found.text == "B takes as long as A: 50 s (+0.0 %)."
    assert found.by_operator["difference"].abs().max() == pytest.approx(0)
    assert found.appeared == found.gone == []
    assert found.notes == []


def test_operators_of_one_run_only():
    a, b = analysed((20, 20), 3, operator="Scan"), analysed((20, 20), 3, operator="Join")
    found = rc.compare_profiles(a, b)
    rows = {row["in_a"]: row for row in found.by_operator.iter_rows(named=True)}
    assert rows["Scan"]["name"] is None
    assert rows["Scan"]["seconds_b"] == 0
    assert rows[None]["name"] == "Join"
    assert rows[None]["seconds_a"] == 0
    assert "B does not have it" in found.text
    assert "A does not have it" in found.text


def test_names_are_matched_by_what_they_mean():
    a = ["Scan (count at job.py:12)", "Sort (count at job.py:12)", "only A", "same"]
    b = ["Sort (count at job.py:14)", "same", "Scan (count at job.py:14)"]
    assert sorted(matched(a, b), key=str) == sorted(
        [
            ("Scan (count at job.py:12)", "Scan (count at job.py:14)"),
            ("Sort (count at job.py:12)", "Sort (count at job.py:14)"),
            ("only A", None),
            ("same", "same"),
        ],
        key=str,
    )


def test_names_that_differ_in_numbers_are_matched_in_order_or_not_at_all():
    assert matched(["f:1", "f:2"], ["f:3", "f:4"]) == [("f:1", "f:3"), ("f:2", "f:4")]
    # The one that is there in both is itself.
    assert matched(["f:1", "f:2"], ["f:2", "f:3"]) == [("f:2", "f:2"), ("f:1", "f:3")]
    assert matched(["f:1", "f:2"], ["f:3"]) == [("f:1", None), ("f:2", None), (None, "f:3")]


def test_windows_without_a_path_are_a_part_of_their_own():
    made = rounds((20, 20), 3)
    long = 200 * NS
    # Everybody waits from the end of the rounds until 200 s.
    waits = [(worker, 1, -1, made.activities.end.max(), long) for worker in range(3)]
    idle = replace(
        made,
        activities=Activities.joined(made.activities, Activities.of(waits)),
        messages=made.messages,
    )
    found = rc.compare_profiles(
        analyse_trace(made, "orders", OPTIONS), analyse_trace(idle, "orders", OPTIONS)
    )
    assert found.difference == pytest.approx(150)
    assert seconds(found.by_operator, UNEXPLAINED)["seconds_b"] == pytest.approx(150, abs=6)


def test_what_cannot_be_compared_well_is_noted():
    a, b = analysed((20, 20), 3), analysed((20, 20, 20), 3, application="clicks")
    found = rc.compare_profiles(a, b)
    assert found.notes == [
        "A is 'orders' and B is 'clicks': are they the same application?",
        "A has 2 workers, and B 3; drivers do not count",
    ]
    # The names of two files say nothing about what ran.
    files = [replace(each, title=f"{n}.parquet", application="") for n, each in enumerate((a, a))]
    assert rc.compare_profiles(*files).notes == []


@pytest.mark.parametrize(
    ("last", "notes"),
    [("w4", ["A has 3 workers, and B 4; drivers do not count"]), ("publisher", [])],
)
def test_all_drivers_are_left_out_of_the_number_of_workers(last, notes):
    a, b = analysed((20, 20, 20), 3), analysed((20, 20, 20, 20), 3)
    workers = [*b.profile.names.workers[:-1], last]
    names = replace(b.profile.names, workers=workers)
    b = replace(b, profile=replace(b.profile, names=names))
    assert rc.compare_profiles(a, b).notes == notes


def test_a_run_without_anything():
    nothing = analyse_trace(
        replace(rounds((1,), 1), activities=Activities.of([]), messages=Messages.of([])), "orders"
    )
    found = rc.compare_profiles(nothing, analysed((20, 20), 3))
    assert found.slower == float("inf")
    assert found.to_dict()["slower"] is None
    assert "B takes 50 s longer than A" in found.text
