from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from rechannel.errors import DataflowError
from rechannel.model import xxh64
from rechannel.model.hashing import canonical, hash_columns, hash_is_key, keys_equal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASK = 2**64 - 1
INT64 = st.integers(-(2**63), 2**63 - 1)


def xxh(data: bytes, seed: int = 42) -> int:
    return xxhash.xxh64_intdigest(data, seed)


def word(number: int) -> bytes:
    return (number & MASK).to_bytes(8, "little")


def hashes(*columns: pa.Array) -> list[int]:
    return hash_columns(list(columns)).tolist()


MAP = pa.map_(pa.string(), pa.int32())
PAIR = pa.struct([("a", pa.int32()), ("b", pa.string())])

# These figures are stored in segments. A change here makes every existing state unreadable.
GOLDEN: list[tuple[list[pa.Array], list[int]]] = [
    (
        [pa.array([0, 1, -1, 2**63 - 1, None])],
        [13194218611613725804, 11445071438006506034, 3858142552250413010, 15200148018071253766, 42],
    ),
    (
        [pa.array(["", "a", "Rechannel", "x" * 64, None])],
        [11002672306508523268, 9864288744972464332, 15394124637435067606, 18306151381460348866, 42],
    ),
    (
        [pa.array([0.0, -0.0, 1.5, float("nan")], pa.float32())],
        [13194218611613725804, 13194218611613725804, 7738255526519901366, 15318800012184600370],
    ),
    ([pa.array([True, False])], [11445071438006506034, 13194218611613725804]),
    ([pa.array([20_000], pa.int32()).cast(pa.date32())], [14257078669419645595]),
    ([pa.array([1_700_000_000_000], pa.timestamp("ms"))], [6483947384059677160]),
    ([pa.array([Decimal("-1.25")], pa.decimal128(10, 2))], [10800519372417321680]),
    ([pa.array([Decimal("-1.25")], pa.decimal128(38, 2))], [9148438841267113800]),
    (
        [pa.array([1, None]), pa.array(["a", "a"]), pa.array([2.5, None])],
        [2888038707231854041, 15054526350140109529],
    ),
    (
        [pa.array([[], [1], [1, 2], [2, 1], [None]], pa.list_(pa.int64()))],
        [
            9246812528373995390,
            12178818042221106084,
            16137809102216614436,
            7518185944607458487,
            13991419011509078594,
        ],
    ),
    (
        [pa.array([[], [("a", 1)], [("a", 1), ("b", None)]], MAP)],
        [9246812528373995390, 14077097904806474457, 5979389394618326941],
    ),
    (
        [pa.array([{"a": 1, "b": "x"}, {"a": None, "b": "x"}])],
        [18091245428649553829, 13244268637422153098],
    ),
]


@pytest.mark.parametrize(("columns", "expected"), GOLDEN)
def test_golden_values(columns: list[pa.Array], expected: list[int]):
    assert hashes(*columns) == expected


def test_one_word_per_row_is_xxh64_of_eight_bytes():
    rng = np.random.default_rng(7)
    words = rng.integers(0, 2**64, 3 * xxh64.BLOCK + 5, np.uint64)
    expected = [xxh(word(int(w))) for w in words[:100]] + [xxh(word(int(w))) for w in words[-100:]]
    got = xxh64.of_words(words)
    assert got[:100].tolist() + got[-100:].tolist() == expected


def test_seeds_may_differ_row_by_row():
    words, seeds = np.array([5, 5, 9], np.uint64), np.array([0, 2**64 - 1, 3], np.uint64)
    expected = [xxh(word(int(w)), int(s)) for w, s in zip(words, seeds, strict=True)]
    assert xxh64.of_words(words, seeds).tolist() == expected


def test_two_words_per_row_are_sixteen_bytes():
    low, high = np.array([1, 2**63], np.uint64), np.array([0, 2**64 - 1], np.uint64)
    expected = [xxh(word(int(a)) + word(int(b))) for a, b in zip(low, high, strict=True)]
    assert xxh64.of_pairs(low, high).tolist() == expected


@given(st.lists(st.one_of(st.none(), st.binary(max_size=80)), max_size=20))
def test_bytes_of_any_length(values: list[bytes | None]):
    expected = [42 if value is None else xxh(value) for value in values]
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        assert hashes(pa.array(values, kind)) == expected


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_strings_are_their_utf8_bytes(kind: pa.DataType):
    values = ["", "a", "größer", None, "x" * 100]
    expected = [42 if value is None else xxh(value.encode()) for value in values]
    assert hashes(pa.array(values, kind)) == expected
    assert hashes(pa.array(values, kind).slice(2)) == expected[2:]


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (pa.array([-1, 7], pa.int8()), [-1, 7]),
        (pa.array([-1, 7], pa.int32()), [-1, 7]),
        (pa.array([255, 7], pa.uint8()), [255, 7]),
        (pa.array([2**64 - 1], pa.uint64()), [-1]),
        (pa.array([True, False]), [1, 0]),
        (pa.array([-1, 3], pa.int32()).cast(pa.date32()), [-1, 3]),
        (pa.array([-86_400_000], pa.int64()).cast(pa.date64()), [-1]),
        (pa.array([-2], pa.timestamp("s")), [-2_000_000]),
        (pa.array([-2], pa.timestamp("ms", "UTC")), [-2_000]),
        (pa.array([-2], pa.timestamp("us", "Europe/Vienna")), [-2]),
        (pa.array([-2], pa.timestamp("ns")), [-2]),
        (pa.array([5], pa.duration("ms")), [5_000]),
        (pa.array([5], pa.int32()).cast(pa.time32("s")), [5_000_000]),
        (pa.array([5], pa.int64()).cast(pa.time64("ns")), [5]),
        (pa.array([Decimal("-1.25")], pa.decimal128(18, 2)), [-125]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else None,
)
def test_values_of_eight_bytes(array: pa.Array, words: list[int]):
    assert hashes(array) == [xxh(word(number)) for number in words]
    assert canonical(array).to_pylist() == words
    assert hash_is_key([array])


def test_floats_are_the_bits_of_the_canonical_double():
    odd_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))[0]
    array = pa.array([0.0, -0.0, float("nan"), odd_nan, 1.5, None])
    one, other, nan, odd, plain, null = hashes(array)
    assert one == other == xxh(bytes(8))
    assert nan == odd == xxh(word(0x7FF8_0000_0000_0000))
    assert plain == xxh(struct.pack("<d", 1.5))
    assert null == 42
    assert hashes(array.cast(pa.float32()))[4] == plain
    assert hashes(array.cast(pa.float16()))[4] == plain


def test_long_decimals_are_sixteen_bytes():
    values = [Decimal("-1.25"), None, Decimal(10) ** 35]
    array = pa.array(values, pa.decimal128(38, 2))
    expected = [
        42 if v is None else xxh(int(v * 100).to_bytes(16, "little", signed=True)) for v in values
    ]
    assert hashes(array) == expected
    assert hashes(array.slice(1)) == expected[1:]
    assert hashes(array.cast(pa.decimal256(38, 2))) == expected
    assert not hash_is_key([array.slice(0, 1)])


def test_decimals_of_more_than_38_digits_are_32_bytes():
    value = Decimal(-(10**50))
    array = pa.array([None, value], pa.decimal256(60, 0))
    assert hashes(array) == [42, xxh(int(value).to_bytes(32, "little", signed=True))]
    assert hashes(array.slice(1)) == hashes(array)[1:]


def test_columns_fold_and_nulls_leave_the_hash():
    first, second = pa.array([1, 1, None, None]), pa.array(["x", None, "x", None])
    one, x = xxh(word(1)), xxh(b"x")
    assert hashes(first, second) == [xxh(word(x), one), one, xxh(word(x), 42), 42]


def test_a_struct_hashes_like_its_fields():
    fields = [pa.array([1, None, 3, 4], pa.int32()), pa.array(["x", "y", None, "z"])]
    mask = pa.array([False, False, False, True])
    array = pa.StructArray.from_arrays(fields, ["a", "b"], mask=mask)
    assert hashes(array) == [*hashes(*fields)[:3], 42]
    assert hashes(array.slice(1)) == hashes(array)[1:]
    assert hashes(pa.array([{}, None], pa.struct([]))) == [42, 42]


def test_a_list_sums_its_elements_by_position():
    def expected(elements: list[int | None]) -> int:
        terms = [
            xxh(word(42 if element is None else xxh(word(element))), position)
            for position, element in enumerate(elements)
        ]
        return xxh(word(sum(terms)), xxh(word(len(terms))))

    lists = [[1, 2], None, [], [2, 1], [None, 1], [1, None], [7] * 9]
    array = pa.array(lists, pa.list_(pa.int32()))
    want = [42 if one is None else expected(one) for one in lists]
    assert hashes(array) == hashes(array.cast(pa.large_list(pa.int64()))) == want
    assert hashes(array.slice(2)) == want[2:]
    assert len(set(want)) == len(want)


def test_other_list_layouts_hash_like_lists():
    fixed = pa.array([[9, 9], [1, 2], None, [3, 4]], pa.list_(pa.int64(), 2))
    assert hashes(fixed.slice(1)) == hashes(pa.array([[1, 2], None, [3, 4]]))
    offsets, sizes = pa.array([1, 0, 0], pa.int32()), pa.array([2, 2, 0], pa.int32())
    view = pa.ListViewArray.from_arrays(offsets, sizes, pa.array([1, 2, 3]))
    assert hashes(view) == hashes(pa.array([[2, 3], [1, 2], []]))


def test_the_order_of_a_maps_entries_does_not_count():
    array = pa.array([[("a", 1), ("b", 2)], None, [("b", 2), ("a", 1)], [], [("a", 2)]], MAP)
    got = hashes(array)
    assert got[0] == got[2]
    assert got[1] == 42
    assert len(set(got)) == 4
    assert hashes(array.slice(2)) == got[2:]


def test_dictionaries_runs_and_extensions_stand_for_their_values():
    values = pa.array(["x", None, "y", "x"])
    assert hashes(values.dictionary_encode()) == hashes(values)
    assert hashes(values.dictionary_encode().slice(2)) == hashes(values)[2:]
    nulls = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.uint8()), pa.array([5, None]))
    assert hashes(nulls) == hashes(pa.array([5, None, None]))
    assert hashes(pa.array([1]), nulls.slice(1, 1)) == hashes(pa.array([1]))
    assert not hash_is_key([nulls.slice(0, 1)])
    assert hash_is_key([pa.array([5, 5]).dictionary_encode()])
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([7, 8]))
    assert hashes(runs) == hashes(pa.array([7, 7, 8]))
    uuid = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"\x01" * 16], pa.binary(16)))
    assert hashes(uuid) == [xxh(b"\x01" * 16)]


def test_nothing_but_nulls():
    assert hashes(pa.nulls(3)) == [42, 42, 42]
    assert hashes(pa.array([1]), pa.nulls(1)) == hashes(pa.array([1]))
    assert keys_equal([pa.nulls(2)], [pa.array([None, 1])]).tolist() == [True, False]


@pytest.mark.parametrize(
    "kind",
    [pa.int64(), pa.string(), pa.bool_(), MAP, PAIR, pa.list_(pa.string()), pa.decimal128(30, 1)],
    ids=str,
)
def test_no_rows(kind: pa.DataType):
    empty = pa.array([], kind)
    assert hashes(empty) == []
    assert keys_equal([empty], [empty]).tolist() == []


def test_what_cannot_be_a_key_is_named():
    interval = pa.array([(1, 2, 3)], pa.month_day_nano_interval())
    with pytest.raises(DataflowError, match="month_day_nano_interval cannot be a key"):
        hash_columns([interval])
    with pytest.raises(DataflowError, match="cannot be a key"):
        keys_equal([interval], [interval])
    with pytest.raises(ValueError, match="at least one column"):
        hash_columns([])
    with pytest.raises(ValueError, match="at least one column"):
        keys_equal([], [])


def test_the_hash_is_the_key_only_for_one_word_without_nulls():
    assert hash_is_key([pa.array([1.5])])
    assert not hash_is_key([pa.array([1, None])])
    assert not hash_is_key([pa.array([1]), pa.array([2])])
    assert not hash_is_key([pa.array(["a"])])
    assert not hash_is_key([pa.array([[1]])])


def test_equal_keys_as_group_by_sees_them():
    nan = float("nan")
    left = pa.array([1.0, None, None, nan, 0.0, 2.0])
    right = pa.array([1.0, None, 1.0, nan, -0.0, 3.0])
    expected = [True, True, False, True, True, False]
    assert keys_equal([left], [right]).tolist() == expected
    assert keys_equal([right], [left]).tolist() == expected
    ones = pa.array([1] * 6)
    assert keys_equal([ones, left], [ones, right]).tolist() == expected


def test_keys_of_other_layouts_compare():
    text = pa.array(["x", None, "y"])
    assert keys_equal([text], [text.dictionary_encode()]).all()
    assert keys_equal([text], [text.cast(pa.large_string())]).all()
    assert keys_equal([pa.array([1, 2])], [pa.array([1, 3], pa.int8())]).tolist() == [True, False]


def test_keys_that_cannot_be_compared_are_refused():
    with pytest.raises(ValueError, match=r"int64 and large_binary cannot be compared"):
        keys_equal([pa.array([1])], [pa.array(["1"])])
    with pytest.raises(ValueError, match="1 and 2 rows"):
        keys_equal([pa.array([1])], [pa.array([1, 2])])
    with pytest.raises(ValueError, match="numbers of fields"):
        keys_equal([pa.array([{"a": 1}])], [pa.array([{"a": 1, "b": 2}])])
    with pytest.raises(ValueError, match="argument"):
        keys_equal([pa.array([1])], [pa.array([1]), pa.array([2])])


# Few distinct values, so that equal keys are common.
LEAVES = [
    (pa.int64(), st.sampled_from([0, 1, -1])),
    (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, float("nan")])),
    (pa.string(), st.sampled_from(["", "a", "b"])),
    (pa.decimal128(30, 1), st.sampled_from([Decimal("0.1"), Decimal("-0.1")])),
    (pa.timestamp("us"), st.sampled_from([0, 1])),
]
Typed = tuple[pa.DataType, "st.SearchStrategy[object]"]


def nested(leaf: Typed, other: Typed) -> list[Typed]:
    kind, values = leaf
    maybe = st.one_of(st.none(), values)
    entries = st.dictionaries(other[1], maybe, max_size=2).map(lambda d: list(d.items()))
    pairs = st.fixed_dictionaries({"a": maybe, "b": st.one_of(st.none(), other[1])})
    return [
        leaf,
        (pa.list_(kind), st.lists(maybe, max_size=3)),
        (pa.struct([("a", kind), ("b", other[0])]), pairs),
        (pa.map_(other[0], kind), entries.flatmap(st.permutations)),
        (pa.list_(pa.list_(kind)), st.lists(st.lists(maybe, max_size=2), max_size=2)),
    ]


KINDS = st.tuples(st.sampled_from(LEAVES), st.sampled_from([LEAVES[0], LEAVES[2]])).flatmap(
    lambda pair: st.sampled_from(nested(*pair))
)


def naive(value: object, kind: pa.DataType) -> object:
    """A hashable stand-in that is equal exactly for values GROUP BY holds equal."""
    if value is None:
        return None
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if pa.types.is_map(kind):
        return frozenset((naive(k, kind.key_type), naive(v, kind.item_type)) for k, v in value)
    if pa.types.is_list(kind):
        return tuple(naive(element, kind.value_type) for element in value)
    if pa.types.is_struct(kind):
        return tuple(naive(value[field.name], field.type) for field in kind)
    return value


@given(st.data())
def test_equality_and_hash_agree_with_a_naive_twin(data: st.DataObject):
    kind, values = data.draw(KINDS)
    rows = st.lists(st.tuples(*[st.one_of(st.none(), values)] * 2), min_size=1, max_size=12)
    drawn = data.draw(rows)
    skipped = data.draw(st.integers(0, len(drawn)))
    left, right = (pa.array([row[i] for row in drawn], kind).slice(skipped) for i in (0, 1))
    expected = [naive(one, kind) == naive(other, kind) for one, other in drawn[skipped:]]
    assert keys_equal([left], [right]).tolist() == expected
    same_hash = hash_columns([left]) == hash_columns([right])
    assert all(same_hash[expected])


@pytest.mark.spark
def test_single_columns_hash_like_spark(spark: SparkSession):
    instants = [
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2026, 2, 28, 12, tzinfo=UTC),
        None,
    ]
    columns = {
        "long": pa.array([-(2**63), 7, None]),
        "int": pa.array([-1, 7, None], pa.int32()),
        "flag": pa.array([True, False, None]),
        "day": pa.array([date(1969, 12, 31), date(2026, 2, 28), None]),
        "instant": pa.array(instants, pa.timestamp("us", "UTC")),
        "double": pa.array([-0.0, float("nan"), None]),
        "float": pa.array([1.1, float("-inf"), None], pa.float32()),
        "short_decimal": pa.array([Decimal("-1.25"), Decimal("9e15"), None], pa.decimal128(18, 2)),
        "text": pa.array(["", "größer" * 9, None]),
        "bytes": pa.array([b"", bytes(range(256)), None]),
    }
    widened = {"int": "bigint", "flag": "bigint", "float": "double"}
    frame = spark.createDataFrame(pa.table(columns))
    table = frame.selectExpr(
        *(f"xxhash64(cast({name} as {kind})) as {name}" for name, kind in widened.items()),
        "xxhash64(cast(unix_date(day) as bigint)) as day",
        *(f"xxhash64({name}) as {name}" for name in columns if name not in {*widened, "day"}),
    ).toArrow()
    for name, array in columns.items():
        expected = table[name].combine_chunks().to_numpy().view(np.uint64)
        assert hash_columns([array]).tolist() == expected.tolist(), name
