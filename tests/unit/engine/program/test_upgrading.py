"""Edits of a program's text: what an upgrade makes of each, also if its driver dies at any write of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.journal.acts import acts_of
from rechannel.engine.program.versions import NOTE
from rechannel.engine.publish import publisher
from rechannel.errors import OldProgramError, OtherDataflowError, RefusedError, UserFunctionError
from rechannel.testing import Crash, Fault, FaultKind, Harness, MemoryStore, script
from tests.support.text_edits import (
    EDITS,
    FIRST,
    QUIET,
    SCHEMA,
    SECOND,
    Flows,
    World,
    before,
    found,
    kept,
    read,
    rows,
    sums,
    timed,
    tracked,
)


@pytest.mark.parametrize("name", [name for name, edit in EDITS.items() if edit.refused])
def test_what_would_be_lost_is_refused_with_the_line_to_add(name):
    edit = EDITS[name]
    world = World(edit.old)
    number = world.state.number
    with pytest.raises(OtherDataflowError, match=f"(?s){edit.refused}"):
        world.upgrade(edit.new)
    assert world.state.number == number


@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.AFTER])
@pytest.mark.parametrize("name", [name for name, edit in EDITS.items() if edit.state is not None])
def test_an_upgrade_whose_driver_dies_at_any_write(name, kind):
    edit = EDITS[name]
    for writes in count():
        world = World(edit.old)
        armed = [True]

        def faults(writes: int = writes, armed: list[bool] = armed) -> Iterator[Fault | None]:
            yield from [None] * writes
            if armed[0]:
                yield Fault(kind=kind)

        try:
            world.upgrade(edit.new, faults(), **edit.said)
            armed[0] = False
        except Crash:
            world.upgrade(edit.new, **edit.said)
        harness = world.harness
        harness.process.run()
        assert {name: found(harness, name) for name in edit.state or ()} == edit.state
        assert world.state.notes[NOTE]["2"]["at_start"]
        assert world.state.last_committed == world.state.last_intended
        harness.process.stop()
        world.bench(edit.new).start(**{n: v for n, v in edit.said.items() if n != "without"}).run()
        if not armed[0]:
            break
    assert writes > 3


def test_a_program_that_is_the_running_one_is_a_usual_start():
    world = World(before)
    world.upgrade(before).process.run()
    assert list(world.state.notes[NOTE]) == ["1"]
    assert found(world.harness, "op") == rows("n", "total", a=(2, 11), b=(1, 2))


def test_what_was_declared_is_done_once_and_may_stay():
    edit = EDITS["aggregate renamed"]
    world = World(edit.old)
    for _ in range(3):
        world.upgrade(edit.new, **edit.said).process.run()
        world.harness.process.stop()
    assert list(world.state.notes[NOTE]) == ["1", "2"]
    assert found(world.harness, "op") == edit.state["op"]


def test_what_is_declared_and_not_done_needs_an_upgrade():
    world = World(before)
    added = {"op": rc.changes.migrate(rename={"n": "number"})}
    with pytest.raises(
        OtherDataflowError, match=r"declares a migration of \['op'\], which has not been"
    ):
        world.bench(before).start(migrate=added)


def test_a_live_change_is_not_undone_by_an_upgrade_to_the_text_before_it():
    world = World(before)
    process = world.harness.process
    process.run()
    wanted = {"n": agg.count(), "total": agg.sum("v"), "top": agg.max("v")}
    process.reconfigure(rc.changes.change_logic("op", wanted))
    process.run()
    process.stop()
    with pytest.raises(OldProgramError, match="the job was changed while it ran"):
        world.upgrade(before)


def test_an_upgrade_leads_back_to_a_text_of_before_if_only_upgrades_came_since():
    world = World(before)
    world.upgrade(EDITS["aggregate added"].new).process.run()
    world.harness.process.stop()
    world.upgrade(before).process.run()
    assert found(world.harness, "op") == rows("n", "total", a=(2, 11), b=(1, 2))
    assert world.state.notes[NOTE]["3"]["at_start"]


def test_an_upgrade_is_reverted_as_a_live_change_is():
    world = World(before)
    world.upgrade(EDITS["aggregate added"].new).process.run()
    world.harness.process.stop()
    world.harness = world.bench(before)
    world.harness.start(revert=True).run()
    assert found(world.harness, "op") == rows("n", "total", a=(2, 11), b=(1, 2))
    acts = acts_of(world.state.notes)
    assert [(act["kind"], act["what"]) for act in acts] == [
        ("upgrade", "version 2 of the program took over at a start"),
        (
            "return",
            "version 3 of the program took over at a start: the program of version 1 again",
        ),
    ]


def test_a_row_that_cannot_be_converted_refuses_the_upgrade():
    world = World(EDITS["state of track"].old)
    world.harness.process.run()
    number = world.state.number
    said = rc.changes.migrate(drop=["seen"], add={"small": "CAST(seen * 100 AS TINYINT)"})

    def new(source: Any) -> list[Any]:
        return tracked(source, kept, "small tinyint")

    with pytest.raises(UserFunctionError, match=r"segments/op/"):
        world.upgrade(new, migrate={"op": said})
    assert world.state.number == number


def test_what_was_declared_is_done_again_after_a_return():
    edit = EDITS["aggregate renamed"]
    world = World(before)
    for number in (2, 4):
        world.upgrade(edit.new, **edit.said).process.run()
        assert found(world.harness, "op") == edit.state["op"]
        assert world.state.notes[NOTE][str(number)]["declared"]
        world.harness.process.stop()
        world.harness = world.bench(before)
        world.harness.start(revert=True).run()
        assert found(world.harness, "op") == rows("n", "total", a=(2, 11), b=(1, 2))
        assert "declared" not in world.state.notes[NOTE][str(number + 1)]
        world.harness.process.stop()


def test_an_aggregate_that_is_computed_from_one_that_goes_is_told_by_its_columns():
    def new(source: Any) -> list[Any]:
        return sums(source, mean=agg.mean("v"), total=agg.sum("v"))

    columns = {"mean.count": '"n.count"', "mean.sum": 'CAST("total.sum" AS DECIMAL(38, 0))'}
    world = World(before)
    world.upgrade(new, migrate={"op": rc.changes.migrate(add=columns)}).process.run()
    assert found(world.harness, "op") == rows("mean", "total", a=(5.5, 11), b=(2.0, 2))


def test_upgrade_and_revert_contradict_each_other():
    world = World(before)
    with pytest.raises(RefusedError, match="go back to the program from before, or upgrade"):
        world.bench(EDITS["aggregate added"].new).start(upgrade=True, revert=True)


@pytest.mark.parametrize(
    ("renamed", "said"),
    [
        ({"op": "nowhere"}, "the program has no operator or source 'nowhere'"),
        ({"nothing": "ops"}, "this state directory has no operator or source 'nothing'"),
        ({"in": "ops"}, "the program still has 'in'"),
    ],
)
def test_renames_that_cannot_be(renamed, said):
    world = World(before)
    with pytest.raises(OtherDataflowError, match=said):
        world.upgrade(EDITS["operator renamed"].new, renamed=renamed)


def test_rows_that_are_owed_are_published_as_they_were_committed():
    edit = EDITS["aggregate renamed"]
    world = World(before)
    while world.state.last_committed != 2:
        world.harness.process.step()
    assert world.state.unpublished

    def new(source: Any) -> list[Any]:
        return sums(source, "ops", number=agg.count(), total=agg.sum("v"))

    said = {"ops": edit.said["migrate"]["op"]}
    world.upgrade(new, renamed={"op": "ops"}, migrate=said)
    world.source.push(SECOND)
    world.harness.process.run()
    shown = {t: table.to_pylist() for t, table in world.recorders["out"].published.items()}
    assert shown[2] == [{"k": "a", "n": 2, "total": 11}]
    assert shown[3] == [{"k": "a", "number": 3, "total": 21}]


def test_rows_that_a_function_has_still_to_make_refuse_the_upgrade(monkeypatch):
    monkeypatch.setattr(publisher, "is_plain", lambda _: False)
    world = World(before)
    while world.state.last_committed != 2:
        world.harness.process.step()
    with pytest.raises(
        OtherDataflowError,
        match=r"sink 'out' still has to write timestep 2.*start that program once",
    ):
        world.upgrade(EDITS["aggregate added"].new)


def test_open_changes_of_an_operator_that_has_another_name_end():
    world = World(before)
    id_ = world.harness.process.reconfigure(rc.changes.rescale("op", tasks=4), at=50)
    world.upgrade(EDITS["operator renamed"].new, renamed={"op": "ops"}).process.run()
    record = world.state.coordination.find(id_)
    assert (str(record.phase), record.reason) == (
        "failed",
        "the program was upgraded, and the operator is gone or has another name",
    )


def test_a_new_operator_begins_with_the_state_that_it_is_given():
    def new(source: Any) -> list[Any]:
        stream = read(source)
        op = stream.key_by("k").aggregate(n=agg.count(), total=agg.sum("v"), name="op")
        given = pa.table({"k": ["a", "z"], "seen": [100, 7]})
        more = stream.key_by("k").track(
            kept, state="seen bigint", name="more", preload=lambda: given
        )
        return [op.write.memory("out", name="out"), more.write.memory("more", name="more-out")]

    world = World(before)
    world.upgrade(new).process.run()
    assert found(world.harness, "more") == rows("seen", a=(101,), z=(7,))


# What other texts mean -------------------------------------------------------------------------------------------


def looked_up(source: Any, name: str = "op", *, lookup: bool = True) -> list[Any]:
    stream = read(source)
    op = stream.key_by("k").aggregate(n=agg.count(), total=agg.sum("v"), name=name)
    ends = [op.write.memory("out", name="out")]
    if lookup:
        found = stream.lookup(op, on="k", name="enriched")
        ends.append(found.write.memory("found", name="found"))
    return ends


def test_a_lookup_of_what_an_operator_has_emitted_is_refused():
    world = World(before)
    with pytest.raises(
        OtherDataflowError, match="lookup 'enriched' would not have what 'op' has emitted"
    ):
        world.upgrade(looked_up)


def test_a_lookup_goes_on_if_its_table_has_another_name():
    world = World(looked_up)
    world.upgrade(lambda s: looked_up(s, "ops"), renamed={"op": "ops"}).process.run()
    assert found(world.harness, "ops") == rows("n", "total", a=(2, 11), b=(1, 2))


def test_a_migration_is_not_done_again_under_another_name_or_after_it_was_forgotten():
    started = {"op": rc.changes.migrate(drop=["total"])}
    world = World(before)
    world.upgrade(EDITS["aggregate changed"].new, migrate=started).process.run()

    def named(name: str) -> Flows:
        return lambda s: sums(s, name, n=agg.count(), total=agg.sum("at"))

    declared = {"renamed": {"op": "ops"}, "migrate": {"ops": started["op"]}}
    world.upgrade(named("ops"), **declared).process.run()
    assert found(world.harness, "ops") == rows("n", "total", a=(2, 3000), b=(1, None))
    both = {"renamed": {"op": "ops", "ops": "opus"}}
    world.upgrade(named("opus"), **both).process.run()
    world.upgrade(named("opus"), **both, migrate={"opus": started["op"]}).process.run()
    assert found(world.harness, "opus") == rows("n", "total", a=(2, 3000), b=(1, None))


def test_an_upgrade_before_anything_was_committed_stays_if_its_timestep_is_withdrawn():
    source, store = script(SCHEMA), MemoryStore()
    Harness(before(source), store=store, settings=QUIET).start()
    source.push(FIRST)
    new = Harness(EDITS["aggregate added"].new(source), store=store, settings=QUIET)
    process = new.start(upgrade=True)
    while not new.journal_state().open_intents:
        process.step()
    again = Harness(EDITS["aggregate added"].new(source), store=store, settings=QUIET)
    again.start(replan=True).run()
    assert again.journal_state().configuration_at(2).dataflow == 2
    last = Harness(EDITS["aggregate added"].new(source), store=store, settings=QUIET)
    last.start().run()
    assert found(last, "op") == rows("n", "total", "top", a=(1, 1, 1), b=(1, 2, 2))


@pytest.mark.parametrize("upgrade", [False, True])
def test_what_had_another_role_needs_another_name(upgrade):
    def with_clean(source: Any) -> list[Any]:
        clean = read(source).map_batches(lambda batch: batch, schema=SCHEMA, name="clean")
        op = clean.key_by("k").aggregate(n=agg.count(), total=agg.sum("v"), name="op")
        return [op.write.memory("out", name="out")]

    world = World(with_clean)
    new, said = (lambda s: sums(s, "clean", n=agg.count(), total=agg.sum("v"))), {"without": ["op"]}
    if upgrade:
        said = {"renamed": {"op": "clean"}}
    with pytest.raises(
        OtherDataflowError, match=r"give it another name|the program before has 'clean' already"
    ):
        world.upgrade(new, **said)


def test_bounds_of_a_source_stay_under_its_new_name():
    world = World(before)
    world.harness.process.run()
    world.harness.process.reconfigure(rc.changes.set_bound("in", 3))
    world.harness.process.run()
    edit = EDITS["source renamed"]
    world.upgrade(edit.new, **edit.said).process.run()
    configuration = world.state.configurations[-1][1]
    assert dict(configuration.bounds) == {"input": 3}


def test_other_memory_is_no_rename():
    def deduplicated(within: Any) -> Flows:
        def flows(source: Any) -> list[Any]:
            columns = "k string, v bigint, t timestamp"
            stream = read(source).map_batches(timed, schema=columns, name="timed")
            timely = stream.event_time("t", delay="1 hour", name="timely")
            op = timely.deduplicate("k", within=within, name="op")
            return [op.write.memory("out", name="out")]

        return flows

    world = World(deduplicated(None))
    with pytest.raises(OtherDataflowError, match="or how long it remembers keys, would change"):
        world.upgrade(deduplicated("1 hour"))
