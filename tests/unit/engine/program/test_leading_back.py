"""The program from before a live change reverts it, also if the change converted state."""

from __future__ import annotations

import sys
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.evolution import evolution
from rechannel.engine.journal.entries import Note
from rechannel.engine.program.versions import NOTE
from rechannel.engine.reconfigure import cluster_preparer
from rechannel.engine.reconfigure.history import read_history, read_one
from rechannel.engine.reconfigure.rehearsal import Rehearsal
from rechannel.errors import OldProgramError, OtherDataflowError, RefusedError, UserFunctionError
from rechannel.job import InProcess
from rechannel.operators.process.track_spec import TrackSpec
from rechannel.reconfigure.record import Phase
from rechannel.settings import Settings
from rechannel.state.merging import MergePolicy
from rechannel.testing import Crash, Fault, FaultKind, Harness, MemoryStore, script

RULES = """
import pyarrow as pa
import pyarrow.compute as pc

def doubled(batch):
    if {stumble!r} in batch["k"].to_pylist():
        raise ValueError("no way there")
    return pa.record_batch({{"twice": pc.multiply(batch["total"], 2)}})

def halved(batch):
    return pa.record_batch({{"total": {halves}}})

def twice_summed(key, state, rows):
    return (state or 0) + 2 * sum(rows["v"])

def summed(key, state, rows):
    return (state or 0) + sum(rows["v"])
"""
HALVES = 'pc.divide(batch["twice"], 2)'
TOTAL, TWICE = "total bigint", "twice bigint"


@pytest.fixture
def rules(tmp_path, monkeypatch) -> Any:
    """Import a module whose migration fails for a key; it is forgotten at the end."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(cluster_preparer, "rehearse", lambda *_, **__: Rehearsal(rows=0, of=0))
    numbers = count()

    def write(stumble: str = "", halves: str = HALVES) -> Any:
        text = RULES.format(stumble=stumble, halves=halves) + "#" * next(numbers)
        (tmp_path / "led_back_rules.py").write_text(text)
        sys.modules.pop("led_back_rules", None)
        import led_back_rules

        return led_back_rules

    yield write
    sys.modules.pop("led_back_rules", None)


def tracked(source: Any, store: MemoryStore, function: Any, state: str = TOTAL) -> Harness:
    op = rc.read().memory(source, name="in").key_by("k").track(function, state=state, name="op")
    return Harness(op.write.memory("out", name="out"), store=store, settings=SETTINGS)


SETTINGS = Settings(tasks=2, bins=8, merging=MergePolicy(fan=8))


def feed(source: Any, harness: Harness, *keys: str) -> None:
    """A timestep in which every key gets 1; what was asked for before it is prepared, and holds from it on."""
    harness.process.run()
    source.push([{"k": key, "v": 1} for key in keys])
    harness.process.run()


def values(harness: Harness) -> dict[str, Any]:
    rows = harness.state("op").to_pylist()
    return {row.pop("k"): next(iter(row.values())) if len(row) == 1 else row for row in rows}


def to_twice(harness: Harness, module: Any, at: int | None = None, **said: Any) -> str:
    spec = TrackSpec(update=module.twice_summed, state=pa.schema([("twice", pa.int64())]))
    migrate = rc.changes.migrate(using=module.doubled, **said)
    return harness.process.reconfigure(rc.changes.change_logic("op", spec, migrate=migrate), at=at)


def running(module: Any, keys: int = 20) -> tuple[Harness, Any]:
    """Keys k0 to k19, with totals of 1, and k0 to k9 in a file of their own besides, with one more."""
    source = script("k string, v bigint")
    harness = tracked(source, MemoryStore(), module.summed)
    harness.start()
    feed(source, harness, *(f"k{n}" for n in range(keys)))
    return harness, source


# No timestep of the new version was committed ----------------------------------------------------------------


def test_where_the_first_timestep_fails_the_old_version_goes_on(rules):
    module = rules(stumble="k3")
    harness, source = running(module)
    id_ = to_twice(harness, module)
    with pytest.raises(UserFunctionError) as failed:
        feed(source, harness, "k3", "k4")
    assert "no way there" in str(failed.value)
    assert "start with mended=True; or start the program from before" in str(failed.value)
    assert "start(revert=True)" in str(failed.value)
    left = harness.journal_state()
    assert [intent.timestep for intent in left.open_intents] == [2]
    assert left.coordination.find(id_).phase is Phase.DONE  # the stream was idle at its border

    again = tracked(source, harness.store, module.summed)
    with pytest.raises(OldProgramError, match=r"or revert the change with start\(revert=True\)"):
        again.start()
    again.start(revert=True).run()
    assert {key: values(again)[key] for key in ("k3", "k4", "k5")} == {"k3": 2, "k4": 2, "k5": 1}
    state = again.journal_state()
    record = state.coordination.find(id_)
    assert (record.phase, record.open) == (Phase.UNDONE, False)
    assert record.reason == "led back to version 1 of the dataflow, by start(revert=True)"
    (told,) = read_history(harness.store, state.coordination.records)
    assert (told["phase"], told["reason"]) == ("undone", record.reason)
    assert state.configuration_at(2).dataflow == 3
    assert state.notes[NOTE]["3"]["text"] == "back to version 1"
    assert state.notes["withdrawn"] == {"last": 2}


def test_a_change_that_is_under_way_is_ended(rules):
    module = rules(stumble="k3")
    harness, source = running(module)
    id_ = to_twice(harness, module, at=2)
    source.push([{"k": "k3", "v": 1}])
    with pytest.raises(UserFunctionError):
        harness.process.run()
    assert harness.journal_state().coordination.find(id_).phase is Phase.MOVING
    again = tracked(source, harness.store, module.summed)
    again.start(revert=True).run()
    assert again.journal_state().coordination.find(id_).phase is Phase.UNDONE
    assert values(again)["k3"] == 2


@pytest.mark.parametrize("at", [None, 2])
@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.AFTER])
def test_a_driver_that_dies_on_the_way_back_leaves_it_to_the_next(rules, at, kind):
    module = rules(stumble="k3")
    harness, source = running(module)
    id_ = to_twice(harness, module, at=at)
    if at is None:
        harness.process.run()  # the border comes while the stream is idle
    source.push([{"k": "k3", "v": 1}])
    with pytest.raises(UserFunctionError):
        harness.process.run()
    died = 0
    for number in count():
        again = tracked(source, harness.store, module.summed)
        try:
            again.start(revert=True, faults=[None] * number + [Fault(kind=kind)])
        except Crash:
            died += 1
        else:
            break
    assert died > 0
    again.start(revert=True)
    feed(source, again, "k5")
    assert {key: values(again)[key] for key in ("k3", "k5", "k6")} == {"k3": 2, "k5": 2, "k6": 1}
    state = again.journal_state()
    assert state.configuration_at(2).dataflow == 3
    assert state.coordination.find(id_).phase is Phase.UNDONE
    assert read_one(harness.store, id_)["phase"] == "undone"


# Some were -----------------------------------------------------------------------------------------------------


def counts(source: Any, store: MemoryStore, **aggregates: Any) -> Harness:
    keyed = rc.read().memory(source, name="in").key_by("k")
    op = keyed.aggregate(**(aggregates or ONE), name="op")
    return Harness(op.write.memory("out", name="out"), store=store, settings=SETTINGS)


ONE = {"n": agg.count()}
BOTH = {"n": agg.count(), "total": agg.sum("v")}


def counted() -> tuple[Harness, Any]:
    source = script("k string, v bigint")
    harness = counts(source, MemoryStore())
    harness.start()
    feed(source, harness, *(f"k{n}" for n in range(20)))
    return harness, source


def back_to_counts(harness: Harness, source: Any, **how: Any) -> Harness:
    harness.process.stop()
    again = counts(source, harness.store)
    again.start(revert=True, **how)
    return again


def test_an_aggregate_that_was_added_is_dropped_on_the_way_back():
    harness, source = counted()
    plain, twin = counted()
    for one, each in ((harness, source), (plain, twin)):
        if one is harness:
            one.process.reconfigure(rc.changes.change_logic("op", BOTH))
        feed(each, one, "k1", "k2", "new")
        feed(each, one, "k2")
    assert values(harness)["k2"] == {"n": 3, "total": 2}
    again = back_to_counts(harness, source)
    assert values(again) == values(plain)
    for one, each in ((again, source), (plain, twin)):
        feed(each, one, "k2", "k3", "new", "later")
    assert values(again) == values(plain)
    assert again.state("op").schema == plain.state("op").schema
    shown = [again.outputs("out"), plain.outputs("out")]
    last = [sorted(map(str, each[max(each)].to_pylist())) for each in shown]
    assert last[0] == last[1]


def test_after_the_return_state_of_both_eras_is_merged_and_restarts_go_on():
    harness, source = counted()
    for turn in range(3):
        harness.process.reconfigure(
            rc.changes.change_logic("op", {**ONE, f"t{turn}": agg.sum("v")})
        )
        feed(source, harness, "k1", f"in{turn}")
        harness = back_to_counts(harness, source)
        feed(source, harness, "k2", f"out{turn}")
        harness.process.stop()
        harness = counts(source, harness.store)
        harness.start()  # nobody has to say it again
        feed(source, harness, "k3")
    schema_versions = {"k1": 4, "k2": 4, "k3": 4, "k4": 1, "in0": 1, "out2": 1}
    assert {key: values(harness)[key] for key in schema_versions} == schema_versions
    note = harness.journal_state().notes[NOTE]
    assert sorted(map(int, note)) == list(range(1, 8))
    ends = [passage["to"] for passage in note["7"]["migrations"].get("op", ())]
    assert set(ends) <= {note["7"]["eras"]["op"]}
    harness.process.reconfigure(rc.changes.rewrite("op"))
    feed(source, harness, "k4")
    assert {key: values(harness)[key] for key in schema_versions} == {**schema_versions, "k4": 2}


def test_the_same_change_made_again_is_another_era():
    harness, source = counted()
    names = []
    for _ in range(2):
        harness.process.reconfigure(rc.changes.change_logic("op", BOTH))
        feed(source, harness, "k1")
        names.append(harness.journal_state().notes[NOTE][version_of(harness)]["eras"]["op"])
        assert values(harness)["k1"]["total"] == 1
        harness = back_to_counts(harness, source)
        feed(source, harness, "k2")
    assert names[0] != names[1]
    assert names[0].split(".")[0] == names[1].split(".")[0]
    assert (values(harness)["k1"], values(harness)["k2"]) == (3, 3)


def version_of(harness: Harness) -> str:
    return str(harness.process.position.configuration.dataflow)


def test_what_was_given_up_is_led_back_to_in_turn(rules):
    module = rules()
    harness, source = running(module)
    to_twice(harness, module, back=module.halved)
    feed(source, harness, "k1")
    for number, (function, state, factor) in enumerate(
        [(module.summed, TOTAL, 1), (module.twice_summed, TWICE, 2), (module.summed, TOTAL, 1)]
    ):
        harness.process.stop()
        harness = tracked(source, harness.store, function, state)
        with pytest.raises(
            OldProgramError, match=r"or revert the change with start\(revert=True\)"
        ):
            harness.start()
        harness.start(revert=True)
        feed(source, harness, "k2")
        now = {"k1": 2 * factor, "k2": (2 + number) * factor, "k3": factor}
        assert {key: values(harness)[key] for key in now} == now
    assert sorted(harness.journal_state().notes[NOTE], key=int) == ["1", "2", "3", "4", "5"]


def test_a_return_that_gave_something_up_is_not_led_back_itself():
    harness, source = counted()
    harness.process.reconfigure(rc.changes.change_logic("op", BOTH))
    feed(source, harness, "k1")
    harness = back_to_counts(harness, source)
    feed(source, harness, "k1", "k2")
    harness.process.stop()
    forth = counts(source, harness.store, **BOTH)
    with pytest.raises(
        OldProgramError, match=r"version 3: back to version 1.*cannot revert the change"
    ):
        forth.start()
    with pytest.raises(OtherDataflowError, match="request the change again while the job runs"):
        forth.start(revert=True)


def test_several_changes_are_led_back_at_once():
    harness, source = counted()
    harness.process.reconfigure(rc.changes.change_logic("op", BOTH))
    feed(source, harness, "k1")
    harness.process.reconfigure(rc.changes.change_logic("op", {**BOTH, "most": agg.max("v")}))
    feed(source, harness, "k1", "k2")
    stream = rc.changes.add(stream_of(harness).write.memory("extra", name="extra"))
    harness.process.reconfigure(stream)
    feed(source, harness, "k2")
    harness = back_to_counts(harness, source)
    feed(source, harness, "k3")
    assert {key: values(harness)[key] for key in ("k1", "k2", "k3")} == {"k1": 3, "k2": 3, "k3": 2}
    assert harness.journal_state().notes[NOTE]["5"]["text"] == "back to version 1"


def stream_of(harness: Harness) -> Any:
    return evolution.stream_of(harness.process.switch.current.program.dataflow, "op")


def test_a_function_that_is_given_leads_back(rules):
    module = rules(stumble="k3")
    harness, source = running(module)
    to_twice(harness, module, back=module.halved)
    feed(source, harness, "k1", "new")
    assert harness.journal_state().last_committed == 2
    with pytest.raises(UserFunctionError, match="no way there"):
        feed(source, harness, "k3", "k1")
    again = tracked(source, harness.store, module.summed)
    again.start(revert=True).run()  # the function stands in a module of the program
    wanted = {"k1": 3, "k3": 2, "new": 1, "k4": 1}
    assert {key: values(again)[key] for key in wanted} == wanted
    again.process.stop()
    other = rules(stumble="k4")
    later = tracked(source, again.store, other.summed)
    later.start()  # the function that failed is nobody's any more
    feed(source, later, "k4")
    assert values(later)["k4"] == 2


def test_a_function_that_makes_all_columns_does_not_lead_back_by_itself(rules):
    module = rules(stumble="k3")
    harness, source = running(module)
    to_twice(harness, module)
    feed(source, harness, "k1")
    harness.process.stop()
    again = tracked(source, harness.store, module.summed)
    before = again.journal_state().number
    with pytest.raises(
        OldProgramError, match="this text cannot revert the change: operator 'op': state"
    ):
        again.start()
    with pytest.raises(
        OtherDataflowError, match=r"a function that cannot be inverted.*mended=True"
    ):
        again.start(revert=True)
    assert again.journal_state().number == before


def test_a_column_that_was_dropped_does_not_start_empty():
    source = script("k string, v bigint")
    harness = counts(source, MemoryStore(), **BOTH)
    harness.start()
    feed(source, harness, "k1", "k2")
    harness.process.reconfigure(rc.changes.change_logic("op", ONE))
    feed(source, harness, "k1")
    harness.process.stop()
    again = counts(source, harness.store, **BOTH)
    with pytest.raises(OtherDataflowError, match=r"drops column 'total.sum'.*back=function"):
        again.start(revert=True)


def test_an_operator_that_came_with_the_change_goes_with_its_state():
    harness, source = counted()
    stream = stream_of(harness).key_by("n").aggregate(keys=agg.count(), name="sizes")
    added = rc.changes.add(stream.write.memory("told", name="told"))
    harness.process.reconfigure([rc.changes.change_logic("op", BOTH), added])
    feed(source, harness, "k1")
    harness = back_to_counts(harness, source)
    feed(source, harness, "k1")
    assert values(harness)["k1"] == 3
    assert set(harness.journal_state().manifests) == {"op"}


def test_an_operator_that_went_with_the_change_does_not_come_back():
    source = script("k string, v bigint")
    keyed = rc.read().memory(source, name="in").key_by("k")

    def both() -> list[Any]:
        op = keyed.aggregate(**ONE, name="op").write.memory("out", name="out")
        return [op, keyed.aggregate(**ONE, name="x").write.memory("mx", name="mx")]

    harness = Harness(both(), store=MemoryStore(), settings=SETTINGS)
    harness.start()
    feed(source, harness, "k1")
    harness.process.reconfigure([rc.changes.change_logic("op", BOTH), rc.changes.remove("mx", "x")])
    feed(source, harness, "k1")
    harness.process.stop()
    with pytest.raises(OtherDataflowError, match="'x'"):
        Harness(both(), store=harness.store, settings=SETTINGS).start(revert=True)


def test_a_way_back_is_refused_where_there_is_nothing_to_convert(rules):
    module = rules()
    harness, _ = running(module)
    same = rc.changes.change_logic(
        "op", module.twice_summed, migrate=rc.changes.migrate(back=module.halved)
    )
    with pytest.raises(RefusedError, match="there is nothing to convert back"):
        harness.process.reconfigure(same)


# Around it ---------------------------------------------------------------------------------------------------


def test_a_source_that_came_with_the_change_goes():
    harness, source = counted()
    other = script("k string, v bigint", [[{"k": "k1", "v": 5}]])
    more = rc.read().memory(other, name="more").key_by("k").aggregate(n=agg.count(), name="beside")
    added = rc.changes.add(more.write.memory("told", name="told"))
    harness.process.reconfigure([rc.changes.change_logic("op", BOTH), added])
    feed(source, harness, "k1")
    assert set(harness.journal_state().offsets) == {"in", "more"}
    harness = back_to_counts(harness, source)
    feed(source, harness, "k1")
    assert set(harness.journal_state().offsets) == {"in"}
    assert values(harness)["k1"] == 3


def as_before(record: dict[str, Any]) -> dict[str, Any]:
    """What the release before this one kept of a version."""
    ways = {
        name: [{one: passage[one] for one in ("from", "migration")} for passage in way]
        for name, way in record["migrations"].items()
    }
    return {**record, "migrations": ways}


@pytest.mark.parametrize("written", [False, True])
def test_a_journal_of_before_leads_back_where_nothing_has_to_be_converted(written):
    harness, source = counted()
    harness.process.reconfigure(rc.changes.change_logic("op", BOTH))
    harness.process.run()
    if written:
        feed(source, harness, "k1")
    journal = harness.process.journal
    known = {n: as_before(one) for n, one in journal.state.notes[NOTE].items()}
    journal.append(Note(kind=NOTE, body=known))
    harness.process.stop()
    both = counts(source, harness.store, **BOTH)
    both.start()
    assert values(both)["k1"]["n"] == 1 + written
    both.process.stop()
    again = counts(source, harness.store)
    if written:
        with pytest.raises(OtherDataflowError, match="did not record the way back"):
            again.start(revert=True)
        return
    again.start(revert=True)
    feed(source, again, "k1")
    assert values(again)["k1"] == 2


def test_a_function_that_fails_on_the_way_back_is_mended(rules):
    module = rules()
    harness, source = running(module)
    to_twice(harness, module, back=module.halved)
    feed(source, harness, "k1", "k2")
    harness.process.stop()
    other = rules(stumble="k2", halves=f"pc.abs({HALVES})")
    again = tracked(source, harness.store, other.summed)
    with pytest.raises(OtherDataflowError, match="start with mended=True"):
        again.start(revert=True)
    again.start(revert=True, mended=True)
    feed(source, again, "k1")
    assert {key: values(again)[key] for key in ("k1", "k2", "k3")} == {"k1": 3, "k2": 2, "k3": 1}
    again.process.stop()
    tracked(source, harness.store, other.summed).start()


def test_a_job_is_led_back(tmp_path, caplog):
    source = script("k string, v bigint")

    def job() -> rc.Job:
        keyed = rc.read().memory(source, name="in").key_by("k")
        flow = keyed.aggregate(**ONE, name="op").write.memory("out", name="out")
        return rc.Job("led-back", flow, state=tmp_path / "state")

    def push(*keys: str) -> None:
        source.push([{"k": key, "v": 1} for key in keys])
        running.process_all_available(60)

    running = job().start(in_process=InProcess())
    push("a", "b")
    running.reconfigure(rc.changes.change_logic("op", BOTH)).wait(60)
    push("a")
    running.stop()
    with pytest.raises(OldProgramError, match=r"start\(revert=True\)"):
        job().start(in_process=InProcess())
    running = job().start(in_process=InProcess(), revert=True)
    assert "reverts to it; state of ['op'] written since is converted back" in caplog.text
    push("a", "c")
    assert {row["k"]: row["n"] for row in running.state("op").to_pylist()} == {
        "a": 3,
        "b": 1,
        "c": 1,
    }
    assert [one.phase for one in running.history()] == ["undone"]
    running.stop()


def test_what_is_owed_and_what_is_half_moved_at_the_return():
    harness, source = counted()
    stream = stream_of(harness).key_by("n").aggregate(keys=agg.count(), name="sizes")
    harness.process.reconfigure(
        [
            rc.changes.change_logic("op", BOTH),
            rc.changes.add(stream.write.memory("told", name="told")),
        ]
    )
    feed(source, harness, "k1")
    moves = [
        harness.process.reconfigure(
            rc.changes.rescale(name, 3), strategy=rc.strategies.fluid(gap=5)
        )
        for name in ("sizes", "op")
    ]
    source.push([{"k": "k1", "v": 70}])
    while 3 not in harness.journal_state().unpublished:
        assert harness.process.step()
    again = counts(source, harness.store)
    again.start(revert=True).run()
    assert again.outputs("out")[3].to_pylist() == [{"k": "k1", "n": 3}]
    for _ in range(9):
        feed(source, again, "k1")
    records = again.journal_state().coordination
    gone, stays = (records.find(id_) for id_ in moves)
    assert (gone.phase, stays.phase) == (Phase.FAILED, Phase.DONE)
    assert "'sizes'" in gone.reason
    assert values(again)["k1"] == 12
