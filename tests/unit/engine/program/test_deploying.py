"""A text that takes over from the running one: what becomes of state, also if the driver dies at any write of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.evolution.declared import Declared
from rechannel.dataflow.evolution.migration import functions_of
from rechannel.dataflow.identity.provided import provided_by
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.engine.program.deploying import UnchangedError
from rechannel.engine.program.versions import NOTE, current_version
from rechannel.errors import OldProgramError, OtherDataflowError, RefusedError
from rechannel.reconfigure.deploy import Deploy
from rechannel.testing import Crash, Fault, FaultKind
from tests.support.text_edits import (
    EDITS,
    SECOND,
    Edit,
    Flows,
    World,
    before,
    found,
    kept,
    rows,
    tracked,
)

LIVE = [n for n, edit in EDITS.items() if edit.state is not None and not edit.live]
AT_A_RESTART = [n for n, edit in EDITS.items() if edit.live]


def deploy_of(flows: list[Any], **said: Any) -> Deploy:
    """The deploy of a text, as a job makes it."""
    dataflow = dataflow_of(*flows)
    declared = Declared(**said)
    return Deploy(
        dataflow=dataflow,
        declared=declared,
        provided=provided_by(dataflow, functions_of(declared.migrate)),
    )


def deploy(world: World, new: Flows, **said: Any) -> None:
    """Deploy a text, and give the stream its second rows."""
    harness = world.bench(new)
    world.harness.recorders.update(harness.recorders)
    world.harness.process.reconfigure(deploy_of(new(world.source), **said))


class Faults:
    """Writes of a driver, of which one fails once the faults are armed."""

    def __init__(self, kind: FaultKind, writes: int) -> None:
        self.kind, self.left = kind, writes
        self.armed = False

    def __iter__(self) -> Iterator[Fault | None]:
        while True:
            due = self.armed and self.left == 0
            self.left -= self.armed
            yield Fault(kind=self.kind) if due else None


@pytest.mark.parametrize("name", LIVE)
def test_a_deploy_carries_over_what_an_upgrade_does(name):
    edit = EDITS[name]
    world = World(edit.old, in_flight=False)
    deploy(world, edit.new, **edit.said)
    process = world.harness.process
    process.run()
    assert current_version(world.state) == 2
    world.source.push(SECOND)
    process.run()
    assert {name: found(world.harness, name) for name in edit.state or ()} == edit.state
    process.stop()
    world.harness = world.bench(edit.new)
    world.harness.start(**{n: v for n, v in edit.said.items() if n != "without"}).run()
    assert {name: found(world.harness, name) for name in edit.state or ()} == edit.state


@pytest.mark.parametrize("name", [n for n, e in EDITS.items() if e.refused and n != "all replaced"])
def test_what_would_be_lost_is_refused_with_the_line_to_add(name):
    edit = EDITS[name]
    world = World(edit.old, in_flight=False)
    number = world.state.number
    with pytest.raises(OtherDataflowError, match=f"(?s){edit.refused}"):
        deploy(world, edit.new)
    assert world.state.number == number
    assert not world.harness.process.switch.busy


@pytest.mark.parametrize("restarted", ["old", "new"])
@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.AFTER])
@pytest.mark.parametrize("name", ["aggregate renamed", "operator added", "operator removed"])
def test_a_deploy_whose_driver_dies_at_any_write(name, kind, restarted):
    """The journal says which text holds: it starts, and the other one starts nothing."""
    edit, held = EDITS[name], set()
    for writes in count():
        faults = Faults(kind, writes)
        world = World(edit.old, in_flight=False, faults=iter(faults))
        faults.armed = True
        try:
            deploy(world, edit.new, **edit.said)
            world.harness.process.run()
            world.source.push(SECOND)
            world.harness.process.run()
        except Crash:
            pass
        if faults.left >= 0:
            break
        version = current_version(world.state)
        held.add(version)
        if len(world.source.batches) == 1:
            world.source.push(SECOND)
        number = world.state.number
        if version == 2 and restarted == "old":
            with pytest.raises(OldProgramError, match="version 2: a deploy of the program"):
                world.bench(edit.old).start()
            assert world.state.number == number
            continue
        if version == 1 and restarted == "new":
            with pytest.raises(OtherDataflowError, match=r"declares a migration|rechannel upgrade"):
                world.bench(edit.new).start(**_without_permission(edit))
            assert world.state.number == number
            world.upgrade(edit.new, **edit.said).process.run()
        else:
            world.harness = world.bench(edit.new if version == 2 else edit.old)
            said = _without_permission(edit) if version == 2 else {}
            world.harness.start(**said).run()
        if restarted == "new":
            assert {name: found(world.harness, name) for name in edit.state or ()} == edit.state
        assert world.state.last_committed == world.state.last_intended
    assert writes > 5
    assert held == {1, 2}


def _without_permission(edit: Edit) -> dict[str, Any]:
    return {name: value for name, value in edit.said.items() if name != "without"}


def test_the_running_text_is_nothing_to_deploy():
    world = World(before, in_flight=False)
    with pytest.raises(UnchangedError, match="there is nothing to deploy"):
        deploy(world, before)


def test_what_was_declared_is_done_once():
    edit = EDITS["aggregate renamed"]
    world = World(before, in_flight=False)
    deploy(world, edit.new, **edit.said)
    world.harness.process.run()
    assert world.state.notes[NOTE]["2"]["declared"]
    with pytest.raises(UnchangedError):
        deploy(world, edit.new, **edit.said)


def test_a_function_may_convert_state_whose_columns_stay():
    def new(source: Any) -> list[Any]:
        return tracked(source, kept, "seen bigint")

    world = World(new, in_flight=False)
    said = {"migrate": {"op": rc.changes.migrate(using=doubled)}}
    deploy(world, new, **said)
    world.harness.process.run()
    world.source.push(SECOND)
    world.harness.process.run()
    assert found(world.harness, "op") == rows("seen", a=(3,), b=(2,))


def doubled(batch: Any) -> Any:
    return batch.set_column(
        batch.schema.get_field_index("seen"), "seen", [2 * n.as_py() for n in batch["seen"]]
    )


@pytest.mark.parametrize("name", AT_A_RESTART)
def test_what_is_left_to_a_restart_says_the_command_that_does_it(name):
    edit = EDITS[name]
    world = World(edit.old, in_flight=False)
    number = world.state.number
    with pytest.raises(RefusedError, match=edit.live):
        deploy(world, edit.new, **edit.said)
    assert world.state.number == number
    assert not world.harness.process.switch.busy


def test_an_earlier_text_is_deployed_again():
    edit = EDITS["aggregate renamed"]
    world = World(before, in_flight=False)
    deploy(world, edit.new, **edit.said)
    world.harness.process.run()
    back = {"op": rc.changes.migrate(rename={"number": "n"})}
    deploy(world, before, migrate=back)
    world.harness.process.run()
    world.source.push(SECOND)
    world.harness.process.run()
    assert current_version(world.state) == 3
    assert found(world.harness, "op") == rows("n", "total", a=(2, 11), b=(1, 2))


def test_an_upgrade_to_the_text_before_does_not_undo_a_deploy():
    world = World(before, in_flight=False)
    deploy(world, EDITS["aggregate added"].new)
    world.harness.process.run()
    world.harness.process.stop()
    with pytest.raises(OldProgramError, match="a deploy of the program"):
        world.upgrade(before)


def test_logic_that_was_assigned_live_stays_as_it_does_at_a_restart():
    def text(source: Any) -> list[Any]:
        stream = (
            rc.read()
            .memory(source, name="in")
            .map(same, schema="k string, v bigint, at bigint", name="each")
        )
        op = stream.key_by("k").aggregate(n=agg.count(), total=agg.sum("v"), name="op")
        return [op.write.memory("out", name="out")]

    world = World(text, in_flight=False)
    process = world.harness.process
    process.reconfigure(
        rc.changes.assign_logic("each", f"{__name__}:times", parameters={"by": 100})
    )
    process.run()
    deploy(world, lambda s: sums_of(text(s), s))
    process.run()
    world.source.push(SECOND)
    process.run()
    assert found(world.harness, "op")["a"]["total"] == 1 + 1000


def same(row: dict[str, Any]) -> dict[str, Any]:
    return row


def times(by: int) -> Any:
    def scaled(row: dict[str, Any]) -> dict[str, Any]:
        return {"k": row.k, "v": row.v * by, "at": row.at}

    return scaled


def sums_of(flows: list[Any], source: Any) -> list[Any]:
    """Return the flows, with an aggregate of its own beside them."""
    other = (
        rc.read().memory(source, name="in2").key_by("k").aggregate(low=agg.min("v"), name="lows")
    )
    return [*flows, other.write.memory("lows", name="lows-out")]
