"""What belongs together in an upgrade: operators made for one of the program's, and all that is refused."""

from __future__ import annotations

from typing import Any

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.program.describing import STATE
from rechannel.engine.program.versions import NOTE
from rechannel.errors import OtherDataflowError
from tests.support.text_edits import Flows, World, read, sums, timed, with_tops, written

TIMED = "k string, v bigint, t timestamp"


def total(key: str, values: Any, context: Any) -> Any:
    one = context.value("total")
    one.set(one.get(0) + sum(values["v"]))
    yield one.get()


def in_order(name: str) -> Flows:
    """A text with `name`, and `name.order`, which holds rows until the watermark has passed them."""

    def text(source: Any) -> list[Any]:
        stream = read(source).map_batches(timed, TIMED).event_time("t", "1 second")
        op = stream.key_by("k").process(
            total,
            schema="total BIGINT",
            states={"total": rc.states.value_state("total BIGINT")},
            time_column="t",
            name=name,
        )
        return [written(op, source, "out")]

    return text


def emitted(world: World) -> list[tuple[str, int]]:
    published = world.recorders["out"].published
    return [tuple(row.values()) for t in sorted(published) for row in published[t].to_pylist()]


def names(world: World) -> set[str]:
    last = max(world.state.notes[NOTE], key=int)
    return set(world.state.notes[NOTE][last][STATE])


def test_what_was_made_for_an_operator_follows_its_new_name():
    world = World(in_order("op"))
    assert names(world) == {"op", "op.order"}
    held = world.harness.state("op.order").num_rows
    assert held
    world.upgrade(in_order("ops"), renamed={"op": "ops"}).process.run()
    assert names(world) == {"ops", "ops.order"}
    world.source.push([{"k": "z", "v": 0, "at": 60_000}])
    world.harness.process.run()
    world.harness.process.run()
    shown = [row for row in emitted(world) if row[0] != "z"]
    assert sorted(shown) == [("a", 1), ("a", 11), ("b", 2)]
    # It may stay, and says nothing new.
    world.harness.process.stop()
    world.upgrade(in_order("ops"), renamed={"op": "ops"}).process.run()
    assert list(world.state.notes[NOTE]) == ["1", "2"]


def test_it_can_have_a_name_of_its_own_in_the_program():
    world = World(in_order("op"))
    both = {"op": "ops", "op.order": "ops.order"}
    world.upgrade(in_order("ops"), renamed=both).process.run()
    assert names(world) == {"ops", "ops.order"}


def test_what_was_made_for_an_operator_is_dropped_with_it():
    world = World(in_order("op"))
    with pytest.raises(OtherDataflowError) as refused:
        world.upgrade(lambda s: sums(s, "other", n=agg.count()))
    assert "without=['op']" in str(refused.value)
    assert "op.order" not in str(refused.value)
    world.upgrade(lambda s: sums(s, "other", n=agg.count()), without=["op"]).process.run()
    assert names(world) == {"other"}


def test_an_operator_of_the_program_whose_name_begins_alike_is_not_renamed():
    """`op.mine` stays: the program has it still."""

    def text(name: str) -> Flows:
        def made(source: Any) -> list[Any]:
            stream = read(source)
            op = stream.key_by("k").aggregate(n=agg.count(), name=name)
            mine = stream.key_by("k").aggregate(top=agg.max("v"), name="op.mine")
            return [written(op, source, "out"), written(mine, source, "mine")]

        return made

    world = World(text("op"))
    world.upgrade(text("ops"), renamed={"op": "ops"}).process.run()
    assert names(world) == {"ops", "op.mine"}


def test_nor_is_it_dropped_without_a_word():
    def old(source: Any) -> list[Any]:
        stream = read(source)
        op = stream.key_by("k").aggregate(n=agg.count(), name="op")
        mine = stream.key_by("k").aggregate(top=agg.max("v"), name="op.mine")
        return [written(op, source, "out"), written(mine, source, "mine")]

    world = World(old)
    with pytest.raises(OtherDataflowError, match=r"operator 'op\.mine' is gone"):
        world.upgrade(lambda s: sums(s, "other", n=agg.count()), without=["op", "mine"])


def test_all_that_is_refused_is_told_at_once():
    def new(source: Any) -> list[Any]:
        stream = read(source, "input")
        op = stream.key_by("k").aggregate(n=agg.count(), name="ops")
        tops = stream.key_by("k").aggregate(top=agg.max("v"), name="best")
        return [written(op, source, "out"), written(tops, source, "tops", "tops-out")]

    world = World(with_tops)
    with pytest.raises(OtherDataflowError) as refused:
        world.upgrade(new)
    first, *reasons = str(refused.value).splitlines()
    assert first == "the program cannot take over, for 3 reasons:"
    assert [one.split(",")[0] for one in reasons] == [
        "- operator 'op' is gone",
        "- operator 'tops' is gone",
        "- source 'in' is gone",
    ]
    said = {"op": "ops", "tops": "best", "in": "input"}
    dropped = {"ops": rc.changes.migrate(drop=["total"])}
    world.upgrade(new, renamed=said, migrate=dropped).process.run()
    assert names(world) == {"ops", "best"}


def test_so_are_all_columns_that_would_be_lost():
    def new(source: Any) -> list[Any]:
        stream = read(source)
        op = stream.key_by("k").aggregate(number=agg.count(), total=agg.sum("v"), name="op")
        tops = stream.key_by("k").aggregate(least=agg.min("v"), name="tops")
        return [written(op, source, "out"), written(tops, source, "tops", "tops-out")]

    world = World(with_tops)
    with pytest.raises(
        OtherDataflowError, match=r"(?s)for 2 reasons:\n- operator 'op'.*\n- operator 'tops'"
    ):
        world.upgrade(new)


def test_the_line_to_add_has_what_the_program_says_already():
    def new(source: Any) -> list[Any]:
        stream = read(source)
        op = stream.key_by("k").aggregate(n=agg.count(), total=agg.sum("v"), name="ops")
        tops = stream.key_by("k").aggregate(top=agg.max("v"), name="best")
        return [written(op, source, "out"), written(tops, source, "tops", "tops-out")]

    world = World(with_tops)
    wanted = r"operator 'tops' is gone, .*renamed=\{'op': 'ops', 'tops': 'best'\}"
    with pytest.raises(OtherDataflowError, match=wanted):
        world.upgrade(new, renamed={"op": "ops"})
