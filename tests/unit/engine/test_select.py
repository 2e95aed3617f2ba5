"""Columns that are chosen and made, in a running job."""

import pickle

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from rechannel.errors import DataflowError, UnknownColumnError, UserFunctionError
from rechannel.testing import Harness, script

SCHEMA = "k STRING, price BIGINT, name STRING"
ROWS = [
    {"k": "a", "price": 3, "name": "x"},
    {"k": "b", "price": 10, "name": "y"},
    {"k": "a", "price": 7, "name": None},
]


def twice(price):
    return pc.multiply(price, 2)


def shown(build):
    rows = script(SCHEMA)
    rows.push(ROWS)
    stream = build(rc.read().memory(rows, name="rows"))
    harness = Harness([stream.write.memory("out", name="out")])
    harness.start()
    harness.process.run()
    return harness.output("out")


def test_columns_are_chosen_renamed_and_made():
    found = shown(
        lambda s: s.select("price", {"who": "k"}, double=rc.computed(twice, "price"), one=ONE)
    )
    assert found.schema.names == ["price", "who", "double", "one"]
    assert found.to_pydict() == {
        "price": [3, 10, 7],
        "who": ["a", "b", "a"],
        "double": [6, 20, 14],
        "one": [1, 1, 1],
    }


ONE = rc.computed(lambda _: pa.scalar(1), "k")


def test_a_star_stands_for_all_columns_that_are_not_made():
    found = shown(lambda s: s.select("*", price=rc.computed(twice, "price"), again="price"))
    assert found.to_pydict() == {
        "k": ["a", "b", "a"],
        "name": ["x", "y", None],
        "price": [6, 20, 14],
        "again": [3, 10, 7],
    }


def test_rows_are_kept_where_a_function_of_columns_says_so():
    found = shown(lambda s: s.filter(rc.computed(lambda p: pc.greater(p, 5), "price")))
    assert found.to_pydict() == {"k": ["b", "a"], "price": [10, 7], "name": ["y", None]}


def test_the_type_of_what_is_made_is_found_out_or_given():
    rows = rc.read().memory(script(SCHEMA), name="rows")
    made = rows.select(
        a=rc.computed(twice, "price"),
        b=rc.computed(twice, "price", returns="DOUBLE"),
        c=rc.computed(twice, "price", returns=pa.int32()),
    )
    assert made.schema == pa.schema([("a", pa.int64()), ("b", pa.float64()), ("c", pa.int32())])


def test_given_types_are_cast_to():
    found = shown(lambda s: s.select(x=rc.computed(twice, "price", returns="DOUBLE")))
    assert found.schema.field("x").type == pa.float64()
    assert found.to_pydict() == {"x": [6.0, 20.0, 14.0]}


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda s: s.select(), DataflowError, "at least one column"),
        (
            lambda s: s.select("nothing"),
            UnknownColumnError,
            "no column 'nothing'; the columns are k, pri",
        ),
        (lambda s: s.select(x="nothing"), UnknownColumnError, "no column 'nothing'"),
        (lambda s: s.select("k", "k"), DataflowError, "'k' is selected twice"),
        (lambda s: s.select(x=3), DataflowError, "not 3"),
        (lambda s: s.select(3), DataflowError, "not 3"),
        (lambda s: s.select(x=twice), DataflowError, "takes names of columns and rc.computed"),
        (lambda s: s.select(x=rc.computed(twice, "no")), UnknownColumnError, "no column 'no'"),
        (lambda s: s.filter(rc.computed(twice, "price")), DataflowError, "must return booleans"),
        (lambda s: rc.computed("price"), DataflowError, "needs a function"),
        (lambda s: rc.computed(twice), DataflowError, "needs the names of the columns"),
        (
            lambda s: s.select(x=rc.computed(lambda p: p[0].as_py(), "price")),
            DataflowError,
            "declare it with returns=",
        ),
        (
            lambda s: s.select(x=rc.computed(lambda p: pa.array(p.to_pylist()), "price")),
            DataflowError,
            "declare it with returns=",
        ),
        (lambda s: s.select(rc.computed(twice, "price")), DataflowError, "name what is computed"),
        (
            lambda s: rc.computed(twice, "price", returns=float),
            DataflowError,
            "not <class 'float'>",
        ),
        (lambda s: rc.computed(twice, "price", returns="INT, z INT"), DataflowError, "one column"),
    ],
)
def test_what_cannot_be_is_refused_at_once(build, error, message):
    with pytest.raises(error, match=message):
        build(rc.read().memory(script(SCHEMA), name="rows"))


def test_a_function_that_returns_too_little_is_named():
    def first(price):
        return price.slice(0, 1)

    with pytest.raises(
        UserFunctionError, match=r"first returned Int64Array of 1 values for 3 rows"
    ):
        shown(lambda s: s.select(x=rc.computed(first, "price")))


def test_what_a_function_of_a_module_makes_travels_by_its_name():
    made = rc.computed(twice, "price")
    assert pickle.loads(pickle.dumps(made)) == made
