"""Who bears a name: counted by the journal, never given again."""

from __future__ import annotations

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.engine.journal.incarnations import (
    NOTE,
    OPERATORS,
    SINKS,
    SOURCES,
    counted,
    ids,
    incarnation,
    members_of,
    note_of,
    since,
)
from rechannel.engine.journal.state import JournalState
from rechannel.errors import OtherDataflowError, RefusedError
from rechannel.settings import Settings
from rechannel.testing import Harness, script


def flows(*, path: str = "out/a", sinks: tuple[str, ...] = ("o",)):
    stream = rc.read().memory(script("k string"), name="in")
    counts = stream.key_by("k").aggregate(n=agg.count(), name="x")
    return [counts.write.json(path, name=name) for name in sinks]


def members(**how):
    return members_of(dataflow_of(*flows(**how)))


def test_everybody_is_counted_once():
    note = counted(None, members(sinks=("o", "p")), 1)
    assert ids(note, SOURCES) == {"in": "source-1"}
    assert ids(note, SINKS) == {"o": "sink-2", "p": "sink-3"}
    assert ids(note, OPERATORS) == {"x": "operator-4"}
    assert note["serial"] == 4
    assert counted(note, members(sinks=("o", "p")), 9) == note


def test_a_name_that_comes_back_is_somebody_else():
    first = counted(None, members(sinks=("o", "p")), 1)
    gone = counted(first, members(sinks=("p",)), 5)
    assert ids(gone, SINKS) == {"p": "sink-3"}
    again = counted(gone, members(sinks=("o", "p")), 8)
    assert ids(again, SINKS) == {"o": "sink-5", "p": "sink-3"}
    assert since({NOTE: again}, SINKS, "o") == 8
    assert since({NOTE: again}, SINKS, "p") == 0
    assert ids(again, OPERATORS) == ids(first, OPERATORS)


def test_a_sink_of_another_path_is_another_one():
    first = counted(None, members(), 1)
    moved = counted(first, members(path="out/b"), 7)
    assert ids(moved, SINKS) != ids(first, SINKS)
    assert moved["serial"] == first["serial"] + 1


def test_facts_that_others_tell_stay_beside_the_id():
    note = counted(None, {"sources": {"in": {"kind": "files"}}}, 1)
    assert note["sources"]["in"] == {"id": "source-1", "since": 0, "kind": "files"}
    later = counted(note, {"sources": {"in": {"kind": "memory"}}}, 4)
    assert later["sources"]["in"] == {"id": "source-1", "since": 0, "kind": "memory"}


def test_journals_of_before_say_nothing():
    assert incarnation({}, SINKS, "o") == ""
    assert since({}, OPERATORS, "x") == 0


def test_a_start_tells_only_what_is_new():
    dataflow = dataflow_of(*flows())
    note = note_of(JournalState(), dataflow)
    assert note is not None
    assert note_of(JournalState(notes={NOTE: note}), dataflow) is None


def test_a_change_counts_in_the_entry_that_makes_it():
    source = script("k string", [[{"k": "a"}]])
    counts = rc.read().memory(source, name="in").key_by("k").aggregate(n=agg.count(), name="x")
    harness = Harness([counts.write.memory("m", name="m"), counts.write.memory("o", name="o")])
    process = harness.start()
    process.run()
    before = harness.journal_state().notes[NOTE]
    process.reconfigure(rc.changes.remove("o"))
    process.run()
    after = harness.journal_state().notes[NOTE]
    assert set(after["sinks"]) == {"m"}
    assert after["sinks"]["m"] == before["sinks"]["m"]
    assert after["serial"] == before["serial"]


# Operators ---------------------------------------------------------------------------------------------------


def swapped():
    """A job whose operator x was removed before timestep 3, and another one of its name added before timestep 4."""
    source = script("k string, v long", [[{"k": "a", "v": 1}]])
    stream = rc.read().memory(source, name="in")
    op = stream.key_by("k").aggregate(n=agg.count(), name="op").write.memory("m", name="m")
    old = stream.key_by("k").aggregate(n=agg.count(), name="x").write.memory("mx", name="mx")
    some = stream.map_batches(lambda b: b.slice(0), schema="k string, v long", name="some")
    new = some.key_by("k").aggregate(n=agg.count(), name="x").write.memory("my", name="my")
    harness = Harness([op, old], settings=Settings(keep_versions=20))
    process = harness.start()

    def hit():
        source.push([{"k": "a", "v": 5}])
        process.run()

    process.run()
    hit()
    process.reconfigure(rc.changes.remove("mx", "x"))
    process.run()
    hit()
    process.reconfigure(rc.changes.add(new))
    process.run()
    hit()
    hit()
    return harness, source


def test_state_of_another_operator_of_the_name_is_not_shown():
    harness, _ = swapped()
    assert harness.state("x").to_pylist() == [{"k": "a", "n": 2}]
    assert harness.state("x", timestep=4).to_pylist() == [{"k": "a", "n": 1}]
    assert harness.state("x", timestep=3).to_pylist() == []  # what it begins with
    for timestep in (1, 2):
        with pytest.raises(RefusedError, match="'x' exists since timestep 4: at timestep"):
            harness.state("x", timestep=timestep)
    assert harness.state("op", timestep=1).to_pylist() == [{"k": "a", "n": 1}]


def test_going_back_to_a_program_whose_operator_is_gone_is_refused():
    harness, _ = swapped()
    with pytest.raises(
        OtherDataflowError, match=r"operators \['x'\] have been removed since, and other"
    ):
        harness.start(revert=True)


def test_versions_keep_the_incarnations_of_their_operators():
    harness, _ = swapped()
    notes = harness.journal_state().notes
    versions = notes["program"]
    assert versions["3"]["incarnations"] == ids(notes[NOTE], OPERATORS)
    assert versions["1"]["incarnations"]["x"] != versions["3"]["incarnations"]["x"]
    assert versions["1"]["incarnations"]["op"] == versions["3"]["incarnations"]["op"]


def test_a_restart_keeps_the_incarnations():
    harness = Harness(flows())
    harness.start().stop()
    before = harness.journal_state().notes
    harness.start().stop()
    assert harness.journal_state().notes == before


@pytest.mark.parametrize(
    ("one", "elsewhere", "other"),
    [
        (("kafka", "b:1", "t"), ("kafka", "b:2", "t"), ("kafka", "b:1", "u")),
        (
            ("postgres", "postgresql://h/x", "t"),
            ("postgres", "postgresql://i/x", "t"),
            ("postgres", "postgresql://h/x", "u"),
        ),
        (("iceberg", "lake.t"), ("iceberg", "lake.t"), ("iceberg", "lake.u")),
    ],
)
def test_a_sink_with_another_topic_or_table_is_another_one_and_with_another_address_is_not(
    one, elsewhere, other
):
    rows = rc.read().memory(script("k string"), name="in")
    counts = rows.key_by("k").aggregate(n=agg.count(), name="c")
    first, same, another = (
        dataflow_of(getattr(counts.write, kind)(*where, name="o"))
        for kind, *where in (one, elsewhere, other)
    )
    note = counted(None, members_of(first), 0)
    ids = [
        counted(note, members_of(each), 5)["sinks"]["o"]["id"] for each in (first, same, another)
    ]
    assert ids[0] == ids[1] != ids[2]
