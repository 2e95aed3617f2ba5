"""Running states: behind every row, what a batch would have that ends with it."""

import datetime as dt
from decimal import Decimal
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from rechannel.errors import TimestepError
from rechannel.kernels.columnar.groups import Groups
from rechannel.operators.aggregate import functions as ag
from rechannel.operators.aggregate import running_states

COLUMNS = {
    "int64": (pa.int64(), [0, 1, -5, 2**40, -(2**40)]),
    "int16": (pa.int16(), [0, 7, -(2**15), 2**15 - 1]),
    "double": (pa.float64(), [0.1, -0.0, 0.0, 1e16, -1e16, 1e300, 5e-324, float("nan"), float("inf")]),
    "tame": (pa.float64(), [0.1, 0.2, 0.3, 1e16, -1e16, 1e-9, 2.5e100]),
    "float": (pa.float32(), [0.5, -1.25, 3e30]),
    "decimal": (pa.decimal128(12, 2), [Decimal("1.25"), Decimal("-99999999.99"), Decimal("0.01")]),
    "string": (pa.string(), ["", "a", "a\0", "b", "ab", "a long one, of more than eight bytes"]),
    "boolean": (pa.bool_(), [True, False]),
    "date": (pa.date32(), [dt.date(2026, 1, 1), dt.date(1960, 1, 2)]),
    "list": (pa.list_(pa.int64()), [[], [1], [2, None]]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["x", "y", "longer"]),
}  # fmt: skip
NUMBERS = ["int64", "int16", "double", "tame", "float", "decimal"]
ORDERABLE = [*NUMBERS, "string", "boolean", "date"]
CASES = [
    *((ag.Count(column="x"), kind) for kind in COLUMNS),
    *((make(column="x"), kind) for make in (ag.Sum, ag.Mean, ag.Variance, ag.Stddev) for kind in NUMBERS),
    *((make(column="x"), kind) for make in (ag.Min, ag.Max) for kind in ORDERABLE),
    *((ag.First(column="x", ignore_nulls=skip), kind) for kind in COLUMNS for skip in (False, True)),
    *((ag.Last(column="x", ignore_nulls=skip), kind) for kind in COLUMNS for skip in (False, True)),
    *((ag.LastN(column="x", n=3, ignore_nulls=skip), kind) for kind in COLUMNS for skip in (False, True)),
]  # fmt: skip


def batch(function, field, values):
    """State and finished value of all the values, as of one group."""
    groups = Groups(np.zeros(1, dtype=np.int64), len(values))
    state = function.partial([pa.array(values, field.type)], groups)
    return [column.to_pylist() for column in state], function.final(state, [field]).to_pylist()


@pytest.mark.parametrize(
    ("function", "kind"), CASES, ids=[f"{type(f).__name__} {kind}" for f, kind in CASES]
)
@pytest.mark.parametrize("chunk", [3, 1000])
def test_every_row_has_what_a_batch_has_that_ends_with_it(function, kind, chunk, monkeypatch):
    monkeypatch.setattr(running_states, "CHUNK_ROWS", chunk)
    rng = Random(f"{function} {kind} {chunk}")
    column, known = COLUMNS[kind]
    field = pa.field("x", column)
    for _ in range(8):
        sizes = [rng.choice((1, 1, 2, 3, 4, 7, 12)) for _ in range(rng.choice((1, 2, 5)))]
        rows = [[rng.choice([None, *known]) for _ in range(size)] for size in sizes]
        before = [[rng.choice([None, *known]) for _ in range(rng.randint(0, 3))] for _ in sizes]
        starts = np.cumsum([0, *sizes[:-1]])
        found = np.array([bool(values) for values in before])
        # State of groups that have none is undefined: here it is that of another one.
        junk = next((values for values in before if values), [None])
        filled = [values or junk for values in before]
        flat = pa.array([value for values in filled for value in values], column)
        ends = np.cumsum([0, *(len(values) for values in filled)])
        old = function.partial([flat], Groups(ends[:-1], len(flat)))
        values = pa.array([value for one in rows for value in one], column)
        groups = Groups(starts, len(values))
        shown, state = running_states.running(function, [field], [values], groups, old, found)
        wanted = [
            batch(function, field, [*there, *one[: i + 1]])
            for there, one in zip(before, rows, strict=True)
            for i in range(len(one))
        ]
        assert repr(shown.to_pylist()) == repr([value for _, (value,) in wanted])
        behind = [wanted[i][0] for i in np.cumsum(sizes) - 1]
        got = [[column.slice(i, 1).to_pylist() for column in state] for i in range(len(sizes))]
        assert repr(got) == repr(behind)
        assert [column.type for column in state] == [column.type for column in old]


def test_no_rows_have_no_states():
    nothing = Groups(np.empty(0, dtype=np.int64), 0)
    for function, kind in CASES:
        field = pa.field("x", COLUMNS[kind][0])
        old = [pa.array([], f.type) for f in function.state_fields([field])]
        empty = pa.array([], field.type)
        shown, state = running_states.running(
            function, [field], [empty], nothing, old, np.empty(0, bool)
        )
        assert [len(shown), *map(len, state)] == [0] * (1 + len(old))


def test_sums_that_leave_the_numbers_fail_and_those_that_come_back_do_not():
    large = 2**62
    field, sums = pa.field("x", pa.int64()), ag.Sum(column="x")

    def run(before, values):
        old, found = [pa.array([before], pa.int64())], np.array([before is not None])
        groups = Groups(np.zeros(1, dtype=np.int64), len(values))
        shown, _ = running_states.running(sums, [field], [pa.array(values)], groups, old, found)
        return shown.to_pylist()

    assert run(-large, [large, large, large - 1]) == [0, large, 2 * large - 1]
    assert run(None, [large, -large, -large, -large]) == [large, 0, -large, -2 * large]
    for before, values in (
        (large, [large]),
        (None, [large, large, -large]),
        (-large, [-large, -1]),
    ):
        with pytest.raises(TimestepError, match="does not fit its result type int64"):
            run(before, values)


def test_decimals_that_come_back_do_not_fail():
    """Only what is shown has to fit, whatever the rows in between add up to by themselves."""
    function = ag.Sum(column="x")
    kind, top = pa.decimal128(38, 0), 9 * 10**37
    field, one = pa.field("x", kind), Groups(np.zeros(1, dtype=np.int64), 1)

    def run(before, *values):
        first = pa.array([before if before is None else Decimal(before)], kind)
        old, found = function.partial([first], one), np.array([before is not None])
        groups = Groups(np.zeros(1, dtype=np.int64), len(values))
        column = pa.array([*map(Decimal, values)], kind)
        shown, state = running_states.running(function, [field], [column], groups, old, found)
        assert len(shown) == len(values)
        return int(state[-1].to_pylist()[0])

    assert run(-top, top, top) == top
    assert run(None, -top, 0, top, top, -1) == top - 1
    assert run(top, -top, -top, top, top, -top) == 0
    for before, values in ((top, [top]), (None, [top, top, -top]), (-top, [-top, top])):
        with pytest.raises(
            TimestepError, match=r"does not fit its result type decimal128\(38, 0\)"
        ):
            run(before, *values)


def test_decimals_of_many_groups_add_up():
    rng = Random(7)
    kind = pa.decimal128(38, 0)
    rows = [[rng.randint(-(10**36), 10**36) for _ in range(rng.randint(1, 60))] for _ in range(40)]
    before = [rng.randint(-(10**36), 10**36) for _ in rows]
    starts = np.cumsum([0, *(len(one) for one in rows[:-1])])
    flat = pa.array([Decimal(value) for one in rows for value in one], kind)
    old = [pa.array([*map(Decimal, before)], kind)]
    groups, known = Groups(starts, len(flat)), np.ones(len(rows), dtype=np.bool_)
    (shown,) = ag.Sum(column="x").running_states([flat], groups, old, known)
    wanted = [
        base + sum(one[: number + 1])
        for base, one in zip(before, rows, strict=True)
        for number in range(len(one))
    ]
    assert [*map(int, shown.to_pylist())] == wanted


def test_states_from_every_row_on():
    groups = Groups(np.array([0, 3, 4]), 9)
    words = pa.array(["a", "b", "c", "d", "e", "f", "g", "h", "i"])

    def merge(earlier, later):
        return [pa.compute.binary_join_element_wise(earlier[0], later[0], "")]

    assert running_states.scanned([words], groups, merge)[0].to_pylist() == [
        "a", "ab", "abc", "d", "e", "ef", "efg", "efgh", "efghi",
    ]  # fmt: skip
    assert running_states.scanned_back([words], groups, merge)[0].to_pylist() == [
        "abc", "bc", "c", "d", "efghi", "fghi", "ghi", "hi", "i",
    ]  # fmt: skip


def test_two_merges_a_row_whatever_the_size_of_a_group():
    merged = []

    def merge(earlier, later):
        merged.append(len(later[0]))
        return [pa.compute.add(earlier[0], later[0])]

    rows = 10_000
    groups = Groups(np.array([0, 7_000, 7_001]), rows)
    running_states.scanned([pa.array(np.ones(rows, dtype=np.int64))], groups, merge)
    assert sum(merged) <= 2 * rows
    assert len(merged) < 40
