"""Names, given and derived."""

from __future__ import annotations

from typing import Any

import pytest

from rechannel.dataflow.graph.naming import DerivedName, FreeName, caller, files_name, given, settle
from rechannel.dataflow.graph.nodes import Dataflow
from rechannel.dataflow.streams.aggregates import count
from rechannel.dataflow.streams.reader import read
from rechannel.dataflow.streams.stream import Stream, dataflow_of
from rechannel.errors import DataflowError
from tests.support.flights import flights, same


def names(*ends: Any) -> list[str]:
    return [node.name for node in dataflow_of(*ends).nodes]


def counted(stream: Stream, **more: Any) -> Stream:
    return stream.key_by("carrier").aggregate(n=count(), **more)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("flights/*.parquet", "flights"),
        ("data/2013-01.json.gz", "2013_01"),
        ("/data/year=*/month=*/x.csv", "x"),
        ("data/flights/", "flights"),
        ("*.csv", "files"),
        ("s3://bucket/a b/*", "a_b"),
        (".", "files"),
    ],
)
def test_files_are_called_after_the_last_part_of_their_path(path: str, name: str) -> None:
    assert files_name(path) == name


def numbers(start: int, stop: int) -> Any:
    raise NotImplementedError


class Ticker:
    @classmethod
    def name(cls) -> str:
        return "my ticker"

    def streamReader(self, schema: Any) -> None:  # noqa: N802 - Spark's name
        raise NotImplementedError


def test_sources_are_called_after_what_they_read() -> None:
    reader = read()

    assert reader.generator(numbers, schema="n INT", per_timestep=1).name == "numbers"
    assert reader.generator(lambda a, b: None, schema="n INT", per_timestep=1).name == "generator"
    assert reader.python(Ticker).name == "my_ticker"
    assert reader.memory("n INT").name == "memory"


def test_stateless_nodes_are_numbered_behind_what_has_a_name() -> None:
    first = flights().transform(lambda df: df).map_batches(same).transform(lambda df: df)
    second = counted(first, name="delays").map_batches(same).filter("n > 1")
    third = second.transform(lambda df: df, name="mine").transform(lambda df: df)

    assert names(third.write.noop()) == [
        "flights",
        "flights.transform-1",
        "flights.map_batches-1",
        "flights.transform-2",
        "delays",
        "delays.map_batches-1",
        "delays.filter-1",
        "mine",
        "mine.transform-1",
        "mine.transform-1.noop",
    ]


def test_keyed_operators_are_called_after_their_keys_and_sinks_after_their_place() -> None:
    stream = flights()
    kept = stream.map_batches(same).key_by("carrier", "origin").aggregate(n=count())

    assert names(
        kept.write.parquet("out/delays"), kept.write.memory("t"), kept.write.for_each_batch(print)
    ) == [
        "flights",
        "flights.map_batches-1",
        "flights.aggregate-by-carrier-origin",
        "parquet-delays",
        "memory-t",
        "flights.aggregate-by-carrier-origin.print",
    ]


def test_a_name_may_be_given_everywhere() -> None:
    stream = flights("in").transform(lambda df: df, name="t").map_batches(same, name="b")
    stream = stream.map(lambda row: row, "n INT", name="m").flat_map(
        lambda row: [], "n INT", name="fm"
    )
    stream = stream.filter("n > 1", name="f").union(read().memory("n INT", name="x"), name="u")

    assert names(stream.write.console(name="c")) == [
        *["in", "t", "b", "m", "fm", "f", "x", "u"],
        "c",
    ]


def test_branches_that_derive_one_name_are_numbered_in_order() -> None:
    stream = flights()
    late = stream.filter("dep_delay > 0")
    early = stream.filter("dep_delay <= 0").map_batches(same)

    both = names(late.write.console(), early.write.console())

    assert both == [
        "flights",
        "flights.filter-1",
        "flights.filter-1.console",
        "flights.filter-1~2",
        "flights.map_batches-1",
        "flights.map_batches-1.console",
    ]


def test_names_stay_when_a_branch_is_added() -> None:
    stream = flights()
    kept = counted(stream.filter("dep_delay > 0").map_batches(same)).write.parquet("out")
    other = read().memory("n INT").filter("n > 0").map_batches(same).write.console()
    sibling = stream.filter("origin = 'JFK'").map_batches(same).write.memory("jfk")

    alone = names(kept)

    assert set(alone) <= set(names(other, kept))
    assert set(alone) <= set(names(kept, sibling))
    assert names(kept, sibling, other)[: len(alone)] == alone


def test_settled_graphs_are_joined_as_before_and_new_nodes_only_where_needed() -> None:
    stream = flights()
    one = stream.filter("dep_delay > 0")
    other = stream.filter("dep_delay <= 0")
    flow = counted(one.union(other), name="kept").write.noop()
    before = Dataflow.of(flow.node)

    after = settle(before)

    assert after.by_name["flights"] is before.by_name["flights"]
    assert after.by_name["flights.filter-1"] is one.node
    renamed = after.by_name["flights.filter-1~2"]
    assert renamed is not other.node
    union = after.by_name["flights.union-1"]
    assert union.upstreams == (one.node, renamed)
    assert after.by_name["kept"].upstreams == (union,)
    assert after.by_name["flights.filter-1"] in union.upstreams
    assert settle(after).nodes == after.nodes


def test_a_derived_name_makes_room_for_a_given_one() -> None:
    stream = flights()
    mine = stream.map_batches(same, name="flights.filter-1").write.memory("a")
    derived = stream.filter("dep_delay > 0").write.memory("b")

    assert "flights.filter-1~2" in names(derived, mine)
    assert "flights.filter-1" in names(derived, mine)


@pytest.mark.parametrize("name", ["a", "delays", "Délais 2", "a.b-c_d", "_x", "0"])
def test_good_names(name: str) -> None:
    assert given(name, DerivedName("other")) == name
    assert not isinstance(given(name, DerivedName("other")), DerivedName)


@pytest.mark.parametrize("name", ["", " a", "a/b", "../a", ".a", "a\n", "x" * 129, "_rc", 5])
def test_bad_names(name: Any) -> None:
    with pytest.raises(DataflowError, match="cannot be a name"):
        given(name, DerivedName("other"))


def test_where_nothing_is_given_the_derived_name_counts() -> None:
    assert isinstance(given(None, FreeName("a")), FreeName)


def test_the_caller_is_outside_the_package() -> None:
    assert caller().file == __file__
    assert str(caller()).startswith(f"{__file__}:")
