"""What single aggregates promise beyond the naive twin: types, limits, errors, layouts."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from rechannel.errors import DataflowError, TimestepError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.protocol.logic import AggregateFunction
from rechannel.operators.aggregate import functions as ag
from rechannel.operators.aggregate.functions.inputs import doubles

TOP = 2**63 - 1


def groups(*sizes: int) -> Groups:
    return Groups((np.cumsum(sizes) - sizes).astype(np.int64), sum(sizes))


def field(kind: pa.DataType) -> pa.Field:
    return pa.field("v", kind)


def run(function: AggregateFunction, array: pa.Array, *sizes: int) -> list[object]:
    """Finished values of groups of an array."""
    inputs = [field(array.type)]
    states = function.partial([array], groups(*(sizes or (len(array),))))
    assert [state.type for state in states] == [f.type for f in function.state_fields(inputs)]
    out = function.final(states, inputs)
    assert out.type == function.output_field(inputs).type
    return out.to_pylist()


@pytest.mark.parametrize(
    ("function", "kind", "expected"),
    [
        (ag.Sum(column="v"), pa.int8(), pa.int64()),
        (ag.Sum(column="v"), pa.float32(), pa.float64()),
        (ag.Sum(column="v"), pa.decimal128(10, 2), pa.decimal128(20, 2)),
        (ag.Sum(column="v"), pa.decimal128(30, 2), pa.decimal128(38, 2)),
        (ag.Mean(column="v"), pa.int64(), pa.float64()),
        (ag.Mean(column="v"), pa.decimal128(10, 2), pa.decimal128(14, 6)),
        (ag.Mean(column="v"), pa.decimal128(38, 37), pa.decimal128(38, 38)),
        (ag.Min(column="v"), pa.string(), pa.string()),
        (ag.Max(column="v"), pa.string_view(), pa.large_string()),
        (ag.First(column="v"), pa.dictionary(pa.int8(), pa.date32()), pa.date32()),
        (ag.Last(column="v"), pa.binary_view(), pa.large_binary()),
        (ag.LastN(column="v", n=2), pa.int8(), pa.list_(pa.int8())),
        (ag.Stddev(column="v"), pa.int8(), pa.float64()),
        (ag.CountDistinct(column="v"), pa.int8(), pa.int64()),
    ],
    ids=repr,
)
def test_result_types(function: AggregateFunction, kind: pa.DataType, expected: pa.DataType):
    assert function.output_field([field(kind)]).type == expected


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (ag.Sum(column="v"), pa.bool_()),
        (ag.Sum(column="v"), pa.string()),
        (ag.Sum(column="v"), pa.uint64()),
        (ag.Mean(column="v"), pa.decimal256(50, 0)),
        (ag.Variance(column="v"), pa.date32()),
        (ag.Stddev(column="v"), pa.bool_()),
        (ag.Min(column="v"), pa.list_(pa.int8())),
        (ag.Max(column="v"), pa.struct([("a", pa.int8())])),
    ],
    ids=repr,
)
def test_a_type_that_cannot_be_taken_is_named(function: AggregateFunction, kind: pa.DataType):
    name = type(function).__name__.lower()
    with pytest.raises(DataflowError) as caught:
        function.state_fields([field(kind)])
    assert f"{name}('v') cannot take column 'v' of type {kind}" in str(caught.value)
    with pytest.raises(DataflowError):
        function.output_field([field(kind)])


def test_a_column_without_a_hash_cannot_be_counted_distinct():
    with pytest.raises(DataflowError, match="cannot be a key"):
        ag.CountDistinct(column="v").state_fields([field(pa.month_day_nano_interval())])


def test_members_that_are_null_at_other_places_are_other_values():
    inner = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    kind = pa.struct([("a", pa.int64()), ("b", inner), ("c", pa.string())])
    values = [
        {"a": 1, "b": {"x": None, "y": 2}, "c": "t"},
        {"a": 1, "b": {"x": 2, "y": None}, "c": "t"},
        {"a": None, "b": {"x": 1, "y": 2}, "c": "t"},
        {"a": 1, "b": None, "c": "t"},
        {"a": 1, "b": {"x": None, "y": None}, "c": "t"},
        {"a": 1, "b": {"x": 1, "y": 2}, "c": "t"},
        None,
    ]
    function = ag.CountDistinct(column="v")
    for twice in (values, values[:2], [*values, *values]):
        column = pa.array(twice, kind)
        groups = Groups(starts=np.zeros(1, dtype=np.int64), rows=len(twice))
        (count,) = function.final(function.partial([column], groups), [pa.field("v", kind)])
        distinct = {str(value) for value in twice if value is not None}
        assert count.as_py() == len(distinct)


def test_where_members_of_structs_in_lists_and_maps_are_null_makes_values_distinct():
    pair = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    one, other, none = {"a": 1, "b": None}, {"a": None, "b": 1}, {"a": None, "b": None}
    cases = {
        pa.list_(pair): [[one], [other], [none], [None], [], [one, None], [None, one], None],
        pa.large_list(pa.list_(pair)): [[[one]], [[other]], [[None]], [None], [[]], []],
        pa.map_(pa.string(), pair): [
            [("x", one), ("y", other)],
            [("x", other), ("y", one)],
            [("x", none), ("y", one)],
            [("x", None), ("y", one)],
        ],
        pa.struct([("p", pa.list_(pair))]): [
            {"p": [one]},
            {"p": [other]},
            {"p": [None]},
            {"p": None},
        ],
    }
    function = ag.CountDistinct(column="v")
    for kind, values in cases.items():
        assert run(function, pa.array([*values, *values], kind)) == [
            sum(value is not None for value in values)
        ], kind
    turned = [[("x", one), ("y", other)], [("y", other), ("x", one)]]
    assert run(function, pa.array(turned, pa.map_(pa.string(), pair))) == [1]


def test_values_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="n=0"):
        ag.LastN(column="v", n=0)
    with pytest.raises(ValueError, match="k=2"):
        ag.CountDistinct(column="v", k=2)


@pytest.mark.parametrize("name", [name for name in ag.__all__ if name != "schema_error"])
def test_functions_travel(name: str):
    extra = {"n": 3} if name == "LastN" else {}
    function = getattr(ag, name)(column="v", **extra)
    assert pickle.loads(pickle.dumps(function)) == function
    assert function.inputs == ("v",)
    assert function.ordered == (name in {"First", "Last", "LastN"})


def test_integer_sums_reach_both_ends_and_no_further():
    total = ag.Sum(column="v")
    assert run(total, pa.array([TOP - 1, 1, -TOP, -1]), 2, 2) == [TOP, -TOP - 1]
    assert run(total, pa.array([TOP, 1, -1])) == [TOP]
    with pytest.raises(TimestepError, match=r"sum\('v'\) does not fit its result type int64"):
        run(total, pa.array([TOP, 1]))
    with pytest.raises(TimestepError, match="decimal"):
        run(total, pa.array([-TOP - 1, -1, 5]), 2, 1)
    old, new = [pa.array([TOP])], [pa.array([1])]
    with pytest.raises(TimestepError, match="int64"):
        total.merge_pair(old, new, np.array([True]))
    assert total.merge_pair(old, new, np.array([False]))[0].to_pylist() == [1]
    with pytest.raises(TimestepError, match="int64"):
        total.merge([pa.array([TOP, 1])], groups(2))


def test_decimal_sums_reach_38_digits_and_no_further():
    kind = pa.decimal128(38, 0)
    total, most = ag.Sum(column="v"), Decimal(10**38 - 1)
    least = most.copy_negate()  # unary minus would round
    assert run(total, pa.array([most, least, least, most], kind), 3, 1) == [least, most]
    for values in ([most, 1], [least, -1], [most] * 9, [least] * 9):
        with pytest.raises(TimestepError, match=r"decimal128\(38, 0\)"):
            run(total, pa.array(values, kind))
    one = [pa.array([most], kind)]
    with pytest.raises(TimestepError, match=r"decimal128\(38, 0\)"):
        total.merge_pair(one, one, np.array([True]))


def test_the_mean_of_integers_does_not_overflow():
    mean = ag.Mean(column="v")
    assert run(mean, pa.array([TOP, TOP, -TOP - 1, -TOP - 1]), 2, 2) == [2.0**63, -(2.0**63)]
    assert run(mean, pa.array([-5, None, 4]), 2, 1) == [-5.0, 4.0]


def test_the_mean_of_doubles_does_not_overflow():
    assert run(ag.Mean(column="v"), pa.array([1.7e308, 1.7e308])) == [1.7e308]
    assert run(ag.Sum(column="v"), pa.array([1.7e308, 1.7e308])) == [math.inf]


def test_the_mean_of_decimals_rounds_halves_away_from_zero():
    mean, kind = ag.Mean(column="v"), pa.decimal128(4, 0)
    values = [Decimal(value) for value in (1, *[0] * 31, -1, *[0] * 31, 2, 0, 0)]
    got = run(mean, pa.array(values, kind), 32, 32, 3)
    assert got == [Decimal("0.0313"), Decimal("-0.0313"), Decimal("0.6667")]


def test_a_mean_that_its_type_cannot_hold_is_named():
    big = pa.array([Decimal(10) ** 37], pa.decimal128(38, 0))
    with pytest.raises(TimestepError, match=r"mean\('v'\) does not fit .*decimal128\(38, 4\)"):
        run(ag.Mean(column="v"), big)


def test_decimals_become_the_nearest_doubles():
    texts = ["456.46", "-0.01", "12345678901234567890.12", "99999999999999999999999999.99"]
    array = pa.array([Decimal(text) for text in texts], pa.decimal128(38, 2))
    for part in (array, array.slice(0, 2), array.slice(2)):
        assert doubles(part).tolist() == [float(value) for value in part.to_pylist()]
    wide = pa.array([Decimal(2**62 + 1), Decimal(-(2**62) - 513)], pa.decimal128(38, 0))
    assert doubles(wide).tolist() == [float(value) for value in wide.to_pylist()]
    pair = pa.array([Decimal("335.91"), Decimal("456.46")], pa.decimal128(8, 2))
    assert run(ag.Variance(column="v"), pair) == [7266.151249999994]
    tiny = pa.array([Decimal("1e-30"), Decimal("3e-30")], pa.decimal128(38, 30))
    assert run(ag.Stddev(column="v", population=True), tiny)[0] == pytest.approx(1e-30, rel=1e-15)


def test_equal_values_do_not_vary():
    for value in (0.1, 1e-300, 1.7e308, 5e-324):
        assert run(ag.Variance(column="v"), pa.array([value] * 7)) == [0.0]


def test_variance_far_from_zero_keeps_its_digits():
    values = [1.7e9 + offset for offset in (0.0, 0.5, 1.0)]
    assert run(ag.Variance(column="v"), pa.array(values)) == [0.25]
    assert run(ag.Stddev(column="v"), pa.array([1e200, 3e200]))[0] == pytest.approx(2**0.5 * 1e200)


def test_variance_of_few_or_odd_values():
    array = pa.array([1.0, None, math.inf, 2.0, math.nan])
    assert run(ag.Variance(column="v"), array, 1, 1, 1, 1, 1) == [None] * 5
    got = run(ag.Variance(column="v", population=True), array, 1, 1, 1, 1, 1)
    assert repr(got) == repr([0.0, None, math.nan, 0.0, math.nan])


@pytest.mark.parametrize("function", [ag.Min(column="v"), ag.Max(column="v")], ids=repr)
def test_strings_are_ordered_by_all_of_their_bytes(function: AggregateFunction):
    best = min if isinstance(function, ag.Min) else max
    rng = np.random.default_rng(11)
    long = "x" * 23
    texts = [
        long + "".join(rng.choice(list("\0ab\u00e9\U0001f600"), rng.integers(0, 12)))
        for _ in range(300)
    ]
    sizes = [1, 2, 97, 200]
    array = pa.array(["skipped", *texts]).slice(1)
    edges = np.cumsum([0, *sizes])
    expected = [best(texts[a:b], key=lambda text: text.encode()) for a, b in pairwise(edges)]
    assert run(function, array, *sizes) == expected
    assert run(function, array.cast(pa.large_binary()), *sizes) == [e.encode() for e in expected]


def test_strings_with_nulls_and_prefixes():
    array = pa.array(["a\0", None, "a", None, "", None, "b"])
    assert run(ag.Min(column="v"), array, 3, 1, 2, 1) == ["a", None, "", "b"]
    assert run(ag.Max(column="v"), array, 3, 1, 2, 1) == ["a\0", None, "", "b"]


def test_extremes_of_floats_are_canonical():
    array = pa.array([-0.0, 0.0, -0.0, math.nan, math.nan, 1.0], pa.float32())
    assert repr(run(ag.Min(column="v"), array, 2, 2, 2)) == repr([0.0, 0.0, 1.0])
    assert repr(run(ag.Max(column="v"), array, 2, 2, 2)) == repr([0.0, math.nan, math.nan])


def test_extremes_under_nulls_never_win():
    whole = pa.array([None, 5, None, -5, None], pa.int8())
    assert run(ag.Min(column="v"), whole, 2, 2, 1) == [5, -5, None]
    assert run(ag.Max(column="v"), whole, 2, 2, 1) == [5, -5, None]
    unsigned = pa.array([None, 2**64 - 1, None, 0], pa.uint64())
    assert run(ag.Min(column="v"), unsigned, 2, 2) == [2**64 - 1, 0]
    assert run(ag.Max(column="v"), unsigned, 2, 2) == [2**64 - 1, 0]


def test_other_layouts_are_read_as_what_they_stand_for():
    text = pa.array(["b", None, "a", "b"])
    for array in (text.dictionary_encode(), text.cast(pa.string_view())):
        assert run(ag.Min(column="v"), array) == ["a"]
        assert run(ag.Count(column="v"), array) == [3]
        assert run(ag.CountDistinct(column="v"), array) == [2]
        assert run(ag.LastN(column="v", n=3), array) == [[None, "a", "b"]]
    nulls = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array([5, None]))
    assert run(ag.Count(column="v"), nulls) == [1]
    assert run(ag.Sum(column="v"), nulls) == [5]
    uuid = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"\x01" * 16], pa.binary(16)))
    assert run(ag.Last(column="v"), uuid) == [b"\x01" * 16]


def sketch_of(values: np.ndarray, k: int) -> Columns:
    return ag.CountDistinct(column="v", k=k).partial([pa.array(values)], groups(len(values)))


def test_the_sketch_is_exact_below_k():
    values = np.tile(np.arange(63), 5)
    assert run(ag.CountDistinct(column="v", k=64), pa.array(values)) == [63]


@pytest.mark.parametrize("k", [64, 1024])
def test_the_sketch_errs_as_stated(k: int):
    function = ag.CountDistinct(column="v", k=k)
    errors = []
    for seed in range(60):
        values = np.arange(20_000) + seed * 20_000
        (got,) = run(function, pa.array(values))
        errors.append(int(got) / 20_000 - 1)
    stated = 1 / math.sqrt(k - 2)
    assert 0.5 * stated < np.std(errors) < 1.5 * stated
    assert abs(np.mean(errors)) < 4 * stated / math.sqrt(60)


def test_sketches_merge_to_the_sketch_of_all():
    function = ag.CountDistinct(column="v", k=32)
    parts = [np.arange(0, 100), np.arange(50, 300), np.arange(7)]
    merged = function.merge(
        [pa.concat_arrays([sketch_of(part, 32)[0] for part in parts])], groups(3)
    )
    paired = function.merge_pair(
        sketch_of(parts[0], 32), sketch_of(np.concatenate(parts[1:]), 32), np.array([True])
    )
    expected = sketch_of(np.arange(300), 32)
    assert merged[0].equals(expected[0])
    assert paired[0].equals(expected[0])
    assert len(expected[0][0]) == 32


def test_hashes_that_differ_in_their_last_bits_stay_sorted(monkeypatch: pytest.MonkeyPatch):
    from rechannel.operators.aggregate.functions import distinct

    def close_together(columns: Columns) -> np.ndarray:
        return columns[0].to_numpy().astype(np.uint64)  # upper bits all zero: every cut ties

    monkeypatch.setattr(distinct, "hash_columns", close_together)
    array = pa.array([3, 1, 2, 2, 9, 8, 1])
    states = ag.CountDistinct(column="v", k=3).partial([array], groups(4, 3))
    assert states[0].to_pylist() == [[1, 2, 3], [1, 8, 9]]


def test_schema_error_names_everything():
    error = ag.schema_error("sum", field(pa.bool_()), "numbers")
    assert str(error) == (
        "sum('v') cannot take column 'v' of type bool: it takes numbers. "
        "Cast the column before the aggregate, or choose another one."
    )
