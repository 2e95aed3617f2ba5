"""Branches of a stream: who gets which row, and what they are called."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.evolution.evolution import with_logic
from rechannel.dataflow.graph.nodes import Transform
from rechannel.dataflow.pictures.text import draw_text
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.errors import DataflowError, DuplicateNameError, RefusedError, UserFunctionError
from rechannel.testing import Harness, script

ROWS = [{"k": k, "price": price} for k, price in enumerate([1, 7, None, 3, 9, 5])]


def stream():
    return rc.read().memory(script("k BIGINT, price BIGINT", [ROWS]), name="rows")


def below(limit):
    def cheap(batch):
        return pc.less(batch.column("price"), limit)

    return cheap


def run(branches):
    harness = Harness([branch.write.memory(name, name=name) for name, branch in branches.items()])
    harness.start().run()
    return {name: [row["k"] for row in harness.output(name).to_pylist()] for name in branches}


def test_each_row_is_in_the_first_branch_whose_condition_holds():
    made = stream().branch(cheap=below(4), fair=below(8), otherwise="dear")
    assert list(made) == ["cheap", "fair", "dear"]
    assert run(made) == {"cheap": [0, 3], "fair": [1, 5], "dear": [2, 4]}


def test_without_otherwise_nobody_takes_the_rest():
    assert run(stream().branch(cheap=below(4), fair=below(8))) == {"cheap": [0, 3], "fair": [1, 5]}


def test_a_function_may_answer_with_numpy_and_is_told_what_it_did_wrong():
    def odd(batch):
        return np.arange(batch.num_rows) % 2 == 1

    assert run(stream().branch(odd=odd)) == {"odd": [1, 3, 5]}
    for wrong, words in (
        (lambda batch: [True], "one boolean per row, 6 of them; it returned 1 of bool"),
        (lambda batch: batch.column("k"), "returned 6 of int64"),
        (lambda batch: batch.column("cost"), "cost"),
    ):
        with pytest.raises(UserFunctionError, match=words):
            run(stream().branch(one=wrong))


def test_sql_conditions_that_follow_one_another_are_told_in_one():
    made = stream().branch(a="price < 4", b="price < 8", c=below(9), d="price > 1", otherwise="e")
    nodes = {name: branch.node for name, branch in made.items()}
    first, second, last = (nodes[name].function for name in "abe")
    assert (first.passed, first.last) == ((), "price < 4")
    assert (second.passed, second.last) == (("price < 4",), "price < 8")
    assert (last.passed, last.last) == (("price > 1",), None)
    assert (second.condition, last.condition) == ("price < 8", "otherwise")
    assert nodes["b"].upstream is nodes["a"].upstream
    # What a function is asked about has passed the conditions before it.
    rest = nodes["c"].upstream
    assert isinstance(rest, Transform)
    assert rest.function.passed == ("price < 4", "price < 8")
    assert nodes["d"].upstream is nodes["e"].upstream


class Frame:
    """Remembers what it was asked."""

    def where(self, condition):
        return condition


def test_the_text_of_a_branch_excludes_the_ones_before():
    made = stream().branch(a="x < 4", b="x < 8 OR y", otherwise="c")
    told = [branch.node.function(Frame()) for branch in made.values()]
    assert told == [
        "(x < 4)",
        "NOT coalesce((x < 4), false) AND (x < 8 OR y)",
        "NOT coalesce((x < 4), false) AND NOT coalesce((x < 8 OR y), false)",
    ]


def test_names_follow_the_branches():
    made = stream().branch(cheap=below(4), otherwise="dear")
    assert [branch.name for branch in made.values()] == ["rows.cheap", "rows.dear"]
    counts = [branch.key_by("k").aggregate(n=agg.count()) for branch in made.values()]
    assert [count.name for count in counts] == [
        "rows.cheap.aggregate-by-k",
        "rows.dear.aggregate-by-k",
    ]
    named = stream().branch(cheap=below(4), name="split")
    assert named["cheap"].name == "split.cheap"
    twice = [stream().branch(cheap=below(n))["cheap"].write.noop(name=f"s{n}") for n in (1, 2)]
    with pytest.raises(DuplicateNameError):
        Harness(twice)
    picture = draw_text(dataflow_of(*(b.write.noop() for b in made.values())))
    assert "filter cheap" in picture
    assert "rest of filter cheap" in picture


def test_a_condition_does_not_change_alone():
    flow = dataflow_of(*(b.write.noop() for b in stream().branch(a=below(4), b="k > 1").values()))
    with pytest.raises(RefusedError, match="add another branch"):
        with_logic(flow, "rows.a", below(5))
    with pytest.raises(RefusedError, match="a function of a DataFrame"):
        with_logic(flow, "rows.b", "k > 2")


def test_what_cannot_be_is_refused():
    for wrong, words in (
        (lambda: stream().branch(), "name at least one branch"),
        (lambda: stream().branch(a=3), "'a' needs a SQL condition or a function"),
        (lambda: stream().branch(a="k > 1", otherwise="a"), "a name that no other branch has"),
        (lambda: stream().branch(a="k > 1", name="/"), "cannot be a name"),
    ):
        with pytest.raises(DataflowError, match=words):
            wrong()


def test_an_answer_of_nulls_alone_holds_nowhere():
    made = stream().branch(none=lambda batch: [None] * batch.num_rows, otherwise="all")
    assert run(made) == {"none": [], "all": list(range(6))}


def test_a_mask_that_is_chunked_is_taken():
    def halves(batch):
        return pa.chunked_array([[True] * 3, [False] * (batch.num_rows - 3)])

    assert run(stream().branch(first=halves)) == {"first": [0, 1, 2]}
