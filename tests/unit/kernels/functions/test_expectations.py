"""Expectations: which rows meet them, compared with a loop over rows, and what becomes of the others."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rechannel import expectations
from rechannel.errors import DataflowError, UnknownColumnError, UserFunctionError
from rechannel.kernels.functions.expectations import Expect
from rechannel.model.ddl import schema_of

SCHEMA = schema_of("n BIGINT, x DOUBLE, s STRING, m DECIMAL(5,2), at TIMESTAMP")


def at(hour):
    return datetime(2026, 1, 1, hour, tzinfo=UTC)


def random_rows(rng, count=40):
    def maybe(value):
        return None if rng.random() < 0.2 else value

    return [
        {
            "n": maybe(rng.randrange(-5, 15)),
            "x": maybe(rng.choice((-1.5, 0.0, 2.5, 10.0, math.nan, math.inf))),
            "s": maybe(rng.choice(("", "a1", "b2", "ä9", "zz"))),
            "m": maybe(Decimal(rng.randrange(-300, 300)) / 100),
            "at": maybe(at(rng.randrange(24))),
        }
        for _ in range(count)
    ]


def within(least, most):
    return lambda value: value is None or (least <= value <= most)


CASES = {
    "not_null": (expectations.not_null("n", "s"), lambda r: r["n"] is not None is not r["s"]),
    "between": (expectations.between("n", 0, 9), lambda r: within(0, 9)(r["n"])),
    "between fractions": (expectations.between("n", -0.5, 8.5), lambda r: within(0, 8)(r["n"])),
    "at least": (expectations.between("x", 0), lambda r: within(0, math.inf)(r["x"])),
    "at most": (expectations.between("x", most=5), lambda r: within(-math.inf, 5)(r["x"])),
    "decimals": (
        expectations.between("m", Decimal("-1.5"), 1),
        lambda r: within(Decimal("-1.5"), 1)(r["m"]),
    ),
    "times": (expectations.between("at", at(3), at(20)), lambda r: within(at(3), at(20))(r["at"])),
    "texts": (expectations.between("s", "a", "c"), lambda r: within("a", "c")(r["s"])),
    "in_set": (expectations.in_set("s", ["a1", "ä9"]), lambda r: r["s"] in {None, "a1", "ä9"}),
    "in_set of numbers": (expectations.in_set("n", {1, 2, 3}), lambda r: r["n"] in {None, 1, 2, 3}),
    "matches_regex": (
        expectations.matches_regex("s", r"^\pL[0-9]$"),
        lambda r: r["s"] is None or re.fullmatch(r"[^\W\d_][0-9]", r["s"]) is not None,
    ),
    "satisfies": (
        expectations.satisfies(lambda batch: pc.greater(batch.column("n"), 3)),
        lambda r: r["n"] is not None and r["n"] > 3,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rows_meet_an_expectation_as_a_loop_over_them_says(name):
    expectation, holds = CASES[name]
    rng = Random(name)
    for _ in range(20):
        rows = random_rows(rng)
        met = expectation.met(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
        assert met.to_pylist() == [holds(row) for row in rows]


def batch(*numbers):
    return pa.record_batch({"n": pa.array(numbers, pa.int64())})


def judged(action, numbers, **named):
    made = tuple(named.items())
    return Expect(expectations=made, action=action).judged(batch(*numbers))


SMALL, KNOWN = expectations.between("n", 0, 9), expectations.not_null("n")


def test_rows_are_counted_by_expectation_and_stay():
    verdicts = judged("count", [1, None, 30, -1], small=SMALL, known=KNOWN)
    assert verdicts.rows.column(0).to_pylist() == [1, None, 30, -1]
    assert dict(verdicts.failed) == {"small": 2, "known": 1}
    assert (len(verdicts.bad), verdicts.leave) == (3, False)


def test_rows_that_leave_say_which_expectations_they_do_not_meet():
    many = expectations.in_set("n", range(1, 9))
    verdicts = judged("drop", [1, None, 30], small=SMALL, known=KNOWN, many=many)
    assert verdicts.rows.column(0).to_pylist() == [1]
    letters = verdicts.bad.batch("check", 4).to_pylist()
    assert [json.loads(each["row"]) for each in letters] == [{"n": None}, {"n": 30}]
    assert [each["error"] for each in letters] == [
        "expectation 'known' is not met: n is not null",
        "expectation 'small' is not met: n is between 0 and 9;"
        " expectation 'many' is not met: n is one of 1, 2, 3, 4, 5, ... (8 values)",
    ]


def test_where_all_is_well_the_batch_goes_on_as_it_is():
    rows = batch(1, 2)
    verdicts = Expect(expectations=(("small", SMALL),), action="drop").judged(rows)
    assert verdicts.rows is rows
    assert (verdicts.bad, dict(verdicts.failed)) == (None, {"small": 0})


def test_a_failure_names_the_expectations_the_counts_and_the_first_row():
    with pytest.raises(UserFunctionError) as caught:
        judged("fail", [1, 30, None, 40], small=SMALL, known=KNOWN)
    assert str(caught.value) == (
        '3 of 4 rows do not meet the expectations (small: 2, known: 1). The first of them is {"n": 30}: expectation'
        " 'small' is not met: n is between 0 and 9. Correct the data and have the timestep planned anew"
        " with start(replan=True), or let such rows leave with expect_or_drop(...)"
    )


def picky(rows):
    if 7 in rows.column(0).to_pylist():
        msg = "not a 7"
        raise ValueError(msg)
    return pc.not_equal(rows.column(0), 2)


def test_a_function_that_raises_for_a_row_says_so_in_its_dead_letter():
    verdicts = judged("drop", [1, 2, 3, 7, None, 9], fine=expectations.satisfies(picky))
    assert verdicts.rows.column(0).to_pylist() == [1, 3, 9]
    assert verdicts.bad.errors == [
        "expectation 'fine' is not met: picky is true",
        "expectation 'fine' is not met: picky is true (ValueError: not a 7)",
        "expectation 'fine' is not met: picky is true",
    ]
    with pytest.raises(UserFunctionError, match="not a 7"):
        judged("fail", [1, 7], fine=expectations.satisfies(picky))


@pytest.mark.parametrize(
    ("expectation", "error", "said"),
    [
        (expectations.not_null("m2"), UnknownColumnError, "m2"),
        (
            expectations.between("s", 1),
            DataflowError,
            r"'e' \(s is at least 1\) cannot be checked: s is",
        ),
        (
            expectations.in_set("n", ["a"]),
            DataflowError,
            "n is one of 'a'.*cannot be checked: n is BIGINT",
        ),
        (expectations.matches_regex("n", "a"), DataflowError, "cannot be checked: n is BIGINT"),
    ],
)
def test_what_does_not_fit_the_columns_is_refused(expectation, error, said):
    made = Expect(expectations=(("e", expectation),), action="count")
    with pytest.raises(error, match=f"(?i){said}"):
        made.schema_of(SCHEMA)


@pytest.mark.parametrize("name", CASES)
def test_what_fits_the_columns_is_taken(name):
    made = Expect(expectations=(("e", CASES[name][0]),), action="count")
    assert made.schema_of(SCHEMA) == SCHEMA


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (expectations.not_null, "name the column"),
        (lambda: expectations.not_null(1), "name the column"),
        (lambda: expectations.between("n"), "give least=, most= or both"),
        (lambda: expectations.between("n", 3, 1), "nothing lies between 3 and 1; exchange them"),
        (lambda: expectations.in_set("n", []), "at least one value"),
        (lambda: expectations.in_set("n", [1, None]), "no None: null meets it anyway"),
        (lambda: expectations.in_set("s", "abc"), "not one text, 'abc'"),
        (lambda: expectations.matches_regex("s", re.compile("a")), "pattern is a text, as 'a'"),
        (lambda: expectations.matches_regex("s", "(a"), r"'\(a' is no pattern of RE2"),
        (lambda: expectations.satisfies("n > 1"), "needs a function, not 'n > 1'"),
    ],
)
def test_what_is_no_expectation_is_refused(make, said):
    with pytest.raises(DataflowError, match=said):
        make()


@pytest.mark.parametrize(
    ("expectation", "kept"),
    [
        (expectations.between("n", 0.5), [1, 2]),
        (expectations.between("n", most=-0.5), [-1]),
        (expectations.in_set("n", [1.5, 2]), [2]),
        (expectations.in_set("n", [1.5]), []),
        (expectations.in_set("n", [1.0, 2]), [1, 2]),
    ],
)
def test_bounds_between_whole_numbers_are_not_cut_off(expectation, kept):
    batch = pa.record_batch({"n": pa.array([-1, 0, 1, 2])})
    assert batch.filter(expectation.met(batch)).column(0).to_pylist() == kept


def test_a_bound_within_a_day_is_not_its_beginning():
    days = [datetime(2026, 1, day, tzinfo=UTC).date() for day in (1, 2, 3)]
    batch = pa.record_batch({"d": pa.array(days)})
    from_noon = expectations.between("d", datetime(2026, 1, 2, 12))  # noqa: DTZ001 - a date has no zone
    assert batch.filter(from_noon.met(batch)).column(0).to_pylist() == days[2:]
