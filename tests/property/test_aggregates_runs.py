"""Every aggregate over random timesteps against a naive twin: a dict of lists of values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.protocol.logic import AggregateFunction, OperatorInput
from rechannel.model.eventtime import Clock
from rechannel.operators.aggregate import functions as ag
from rechannel.operators.aggregate.logic import AggregateLogic

Values = list[object]
Row = tuple[int, object]

FLOATS = st.one_of(st.floats(-1e9, 1e9), st.floats(), st.sampled_from([0.0, -0.0, 1.0]))
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[object]]] = {
    "int64": (pa.int64(), st.one_of(st.integers(-9, 9), st.integers(-(2**57), 2**57))),
    "int16": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "uint32": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "double": (pa.float64(), FLOATS),
    "float": (pa.float32(), st.floats(width=32)),
    "decimal": (pa.decimal128(8, 2), st.decimals(-999_999, 999_999, places=2)),
    "long_decimal": (pa.decimal128(38, 2), st.decimals(-(10**30), 10**30, places=2)),
    "string": (pa.string(), st.one_of(st.sampled_from(["", "a", "a\0", "b"]), st.text())),
    "binary": (pa.large_binary(), st.binary(max_size=20)),
    "boolean": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates()),
    "instant": (pa.timestamp("us"), st.datetimes()),
    "list": (pa.list_(pa.int64()), st.lists(st.integers(0, 2), max_size=2)),
}
NUMBERS = ["int64", "int16", "uint32", "double", "float", "decimal", "long_decimal"]
ORDERABLE = [name for name in TYPES if name != "list"]


def present(values: Values) -> Values:
    return [value for value in values if value is not None]


def fractions(values: Values) -> list[Fraction]:
    """The values as aggregates over doubles see them."""
    return [Fraction(float(value)) for value in present(values)]


def special(values: Values) -> float | None:
    """What NaN and infinities among the values make of a sum."""
    odd = {value for value in present(values) if isinstance(value, float) and not_finite(value)}
    if not odd:
        return None
    return math.nan if any(map(math.isnan, odd)) or len(odd) > 1 else float(odd.pop())


def not_finite(value: float) -> bool:
    return math.isnan(value) or math.isinf(value)


def to_float(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def naive_sum(values: Values, kind: pa.DataType) -> object:
    if not present(values):
        return None
    if not pa.types.is_floating(kind):
        exact = Context(prec=60)
        return sum(present(values)) if pa.types.is_integer(kind) else decimal_sum(values, exact)
    odd = special(values)
    return to_float(sum(fractions(values), Fraction(0))) if odd is None else odd


def decimal_sum(values: Values, context: Context) -> Decimal:
    total = Decimal(0)
    for value in present(values):
        total = context.add(total, value)
    return total


def naive_mean(values: Values, kind: pa.DataType) -> object:
    some = present(values)
    if not some:
        return None
    if pa.types.is_decimal(kind):
        exact = Context(prec=80)
        quotient = exact.divide(decimal_sum(values, exact), Decimal(len(some)))
        return quotient.quantize(Decimal(1).scaleb(-kind.scale - 4), ROUND_HALF_UP, exact)
    if pa.types.is_integer(kind):
        return to_float(Fraction(sum(some), len(some)))
    odd = special(values)
    return to_float(sum(fractions(values), Fraction(0)) / len(some)) if odd is None else odd


def rank(value: object) -> object:
    """Sorts as Spark does: NaN behind all numbers, strings by their bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def naive_min(values: Values, kind: pa.DataType) -> object:
    return min(present(values), key=rank, default=None)


def naive_max(values: Values, kind: pa.DataType) -> object:
    return max(present(values), key=rank, default=None)


def naive_variance(values: Values, ddof: int) -> float | None:
    if len(present(values)) <= ddof:
        return None
    return math.nan if special(values) is not None else to_float(spread(values, ddof))


def naive_stddev(values: Values, ddof: int) -> float | None:
    if len(present(values)) <= ddof:
        return None
    if special(values) is not None:
        return math.nan
    exact, wide = spread(values, ddof), Context(prec=60, Emax=9999, Emin=-9999)
    return float(wide.sqrt(wide.divide(Decimal(exact.numerator), Decimal(exact.denominator))))


def spread(values: Values, ddof: int) -> Fraction:
    exact = fractions(values)
    mean = sum(exact, Fraction(0)) / len(exact)
    return sum(((value - mean) ** 2 for value in exact), Fraction(0)) / (len(exact) - ddof)


@dataclass
class Case:
    """An aggregate, the types it is tried on, its naive twin, and how close the two must be."""

    function: AggregateFunction
    naive: Callable[[Values, pa.DataType], object]
    types: list[str]
    loose: float = 0.0


CASES = [
    Case(ag.Count(), lambda values, _: len(values), list(TYPES)),
    Case(ag.Count(column="v"), lambda values, _: len(present(values)), list(TYPES)),
    Case(ag.Sum(column="v"), naive_sum, NUMBERS, 2**-70),
    Case(ag.Mean(column="v"), naive_mean, NUMBERS, 2**-70),
    Case(ag.Min(column="v"), naive_min, ORDERABLE),
    Case(ag.Max(column="v"), naive_max, ORDERABLE),
    Case(ag.Variance(column="v"), lambda v, _: naive_variance(v, 1), NUMBERS, 2**-90),
    Case(
        ag.Variance(column="v", population=True), lambda v, _: naive_variance(v, 0), NUMBERS, 2**-90
    ),
    Case(ag.Stddev(column="v"), lambda v, _: naive_stddev(v, 1), NUMBERS, 2**-45),
    Case(ag.First(column="v"), lambda values, _: values[0], list(TYPES)),
    Case(ag.Last(column="v"), lambda values, _: values[-1], list(TYPES)),
    Case(
        ag.First(column="v", ignore_nulls=True),
        lambda values, _: next(iter(present(values)), None),
        list(TYPES),
    ),
    Case(
        ag.Last(column="v", ignore_nulls=True),
        lambda values, _: next(iter(present(values)[::-1]), None),
        list(TYPES),
    ),
    Case(ag.LastN(column="v", n=2), lambda values, _: values[-2:], list(TYPES)),
    Case(
        ag.LastN(column="v", n=3, ignore_nulls=True),
        lambda values, _: present(values)[-3:],
        list(TYPES),
    ),
    Case(
        ag.CountDistinct(column="v"),
        lambda values, _: len({repr(normal(value)) for value in present(values)}),
        list(TYPES),
    ),
]


def normal(value: object) -> object:
    return value + 0.0 if isinstance(value, float) else value


def close(got: object, expected: object, values: Values, loose: float) -> bool:
    """Equal; for floats within a few roundings and what falls below the kept bins."""
    if isinstance(expected, list):
        return isinstance(got, list) and list(map(repr, got)) == list(map(repr, expected))
    if not isinstance(expected, float) or not isinstance(got, float):
        return got == expected and type(got) is type(expected)
    if not_finite(expected) or not_finite(got):
        return repr(got) == repr(expected) or near_overflow(got, expected)
    if not loose:
        return got == expected
    largest = max((abs(float(value)) for value in present(values)), default=0.0)
    scale = largest if loose in (2**-70, 2**-45) else largest * largest
    return math.isclose(got, expected, rel_tol=1e-15, abs_tol=scale * loose + 5e-324)


def near_overflow(got: float, expected: float) -> bool:
    return max(abs(got), abs(expected)) == math.inf and min(abs(got), abs(expected)) > 1.7e308


class Runner:
    """Runs timesteps of one AggregateLogic; state is a dict from key to a row of state columns."""

    def __init__(self, function: AggregateFunction, kind: pa.DataType) -> None:
        schema = pa.schema([("k", pa.int64()), ("v", kind)])
        self.kind = kind
        self.logic = AggregateLogic.bind(["k"], {"out": function}, schema)
        self.state: dict[int, Columns] = {}

    def step(self, parts: list[list[Row]], *, combined: bool) -> dict[int, object]:
        """One timestep over rows that arrive in several parts; the finished values by key."""
        keys = sorted({key for part in parts for key, _ in part})
        if combined:
            wire, owners = self._combine(parts)
        else:
            wire, owners = self._sorted([row for part in parts for row in part])
        order = np.argsort(owners, kind="stable")
        values = [column.take(pa.array(order)) for column in wire]
        starts = np.searchsorted(owners[order], keys)
        applied = self.logic.apply(
            OperatorInput(
                keys=[pa.array(keys, pa.int64())],
                hashes=np.arange(len(keys), dtype=np.uint64),
                values=values,
                groups=Groups(starts.astype(np.int64), len(order)),
                combined=combined,
                old=self._old(keys),
                found=np.array([key in self.state for key in keys]),
                clock=Clock(stream_ms=0),
                timestep=0,
            )
        )
        self._check(applied.state, self.logic.state_schema)
        applied.output.validate(full=True)
        for i, key in enumerate(keys):
            self.state[key] = [column.slice(i, 1) for column in applied.state]
        return dict(zip(*(column.to_pylist() for column in applied.output.columns), strict=True))

    def _sorted(self, rows: list[Row]) -> tuple[Columns, np.ndarray]:
        rows = sorted(rows, key=lambda row: row[0])
        owners = np.array([key for key, _ in rows], np.int64)
        columns = [pa.array([value for _, value in rows], self.kind)]
        return columns[: len(self.logic.value_schema)], owners

    def _combine(self, parts: Iterable[list[Row]]) -> tuple[Columns, np.ndarray]:
        states, owners = [], []
        for part in parts:
            values, keys = self._sorted(part)
            distinct, starts = np.unique(keys, return_index=True)
            states.append(self.logic.combine(values, Groups(starts.astype(np.int64), len(keys))))
            self._check(states[-1], self.logic.combined_schema)
            owners.append(distinct)
        columns = [pa.concat_arrays(columns) for columns in zip(*states, strict=True)]
        return columns, np.concatenate(owners)

    def _old(self, keys: list[int]) -> Columns:
        """State of the keys; of a key without state, another one's or null, which is undefined."""
        schema = self.logic.state_schema
        if not self.state:
            return [pa.nulls(len(keys), field.type) for field in schema]
        any_state = next(iter(self.state.values()))
        rows = [self.state.get(key, any_state) for key in keys]
        return [pa.concat_arrays(columns) for columns in zip(*rows, strict=True)]

    def _check(self, columns: Columns, schema: pa.Schema) -> None:
        assert [column.type for column in columns] == schema.types
        for column, one in zip(columns, schema, strict=True):
            column.validate(full=True)
            assert one.nullable or column.null_count == 0


def timesteps(kind: st.SearchStrategy[object]) -> st.SearchStrategy[list[list[list[Row]]]]:
    row = st.tuples(st.integers(0, 2), st.one_of(st.none(), kind, kind))
    part = st.lists(row, min_size=1, max_size=6)
    return st.lists(st.lists(part, min_size=1, max_size=3), min_size=1, max_size=3)


def cases(cases: list[Case]) -> list[object]:
    return [pytest.param(case, id=repr(case.function)) for case in cases]


@pytest.mark.parametrize("case", cases(CASES))
@given(st.data())
def test_every_timestep_agrees_with_the_twin(case: Case, data: st.DataObject):
    kind, values = TYPES[data.draw(st.sampled_from(case.types))]
    runner = Runner(case.function, kind)
    seen: dict[int, Values] = {}
    for parts in data.draw(timesteps(values)):
        for part in parts:
            for key, value in part:
                stored = pa.array([value], kind)[0].as_py()  # as float32 and the like keep it
                seen.setdefault(key, []).append(stored)
        combined = not case.function.ordered and data.draw(st.booleans())
        for key, got in runner.step(parts, combined=combined).items():
            expected = case.naive(seen[key], kind)
            assert close(got, expected, seen[key], case.loose), (got, expected, seen[key])


@pytest.mark.parametrize("case", cases([case for case in CASES if not case.function.ordered]))
@given(st.data())
def test_state_is_the_same_whatever_the_order_and_split(case: Case, data: st.DataObject):
    kind, values = TYPES[data.draw(st.sampled_from(case.types))]
    steps = data.draw(timesteps(values))
    once = Runner(case.function, kind)
    rows = [row for parts in steps for part in parts for row in part]
    expected = once.step([rows], combined=False)
    again = Runner(case.function, kind)
    shuffled = data.draw(st.permutations(rows))
    got: dict[int, object] = {}
    at = 0
    while at < len(shuffled):
        size = data.draw(st.integers(1, len(shuffled) - at))
        cut = data.draw(st.integers(0, size))
        chunk = shuffled[at : at + size]
        parts = [part for part in (chunk[:cut], chunk[cut:]) if part]
        got |= again.step(parts, combined=data.draw(st.booleans()))
        at += size
    assert {key: repr(value) for key, value in got.items()} == {
        key: repr(value) for key, value in expected.items()
    }
    for key, columns in once.state.items():
        pairs = zip(columns, again.state[key], strict=True)
        assert all(repr(a.to_pylist()) == repr(b.to_pylist()) for a, b in pairs)


def test_the_twin_covers_every_public_aggregate():
    functions = {type(case.function).__name__ for case in CASES} | {"schema_error"}
    assert functions == set(ag.__all__)
