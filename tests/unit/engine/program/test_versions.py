"""Versions of the dataflow while it runs: what takes over, what the journal keeps, and what a restart is told."""

from __future__ import annotations

import gc
import logging
import threading
from dataclasses import fields, replace

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.evolution.evolution import stream_of
from rechannel.dataflow.graph.nodes import Sink
from rechannel.dataflow.streams.writer import Flow
from rechannel.engine.program.versions import KEPT, NOTE, Program, noted
from rechannel.engine.reconfigure.opener import Opener
from rechannel.engine.reconfigure.proposal import proposed_change
from rechannel.engine.reconfigure.switch import offered_change
from rechannel.errors import (
    DataflowError,
    DuplicateNameError,
    OldProgramError,
    RefusedError,
    UnknownOperatorError,
)
from rechannel.reconfigure.edits import change_set
from rechannel.reconfigure.requests import Request
from rechannel.settings import Settings
from rechannel.state.keys import segments_of
from rechannel.testing import Harness, MemoryStore, Process, script
from rechannel.testing.recorder import Recorder
from tests.support.reconfiguring import accepted

BOTH = {"n": agg.count(), "total": agg.sum("v")}


def flows(*, aggregates=None, late=False):
    """Counts by word, and perhaps a second sink."""
    words = script("word string, v long")
    counts = rc.read().memory(words, name="in").key_by("word").aggregate(
        aggregates or {"n": agg.count()}, name="counts"
    )  # fmt: skip
    ends = [counts.write.memory("out", name="out")]
    if late:
        ends.append(counts.write.memory("late", name="late"))
    return words, ends


def bench(store=None, **options):
    words, ends = flows(**options)
    settings = Settings(tasks=2, bins=8)
    return words, Harness(ends, store=store or MemoryStore(), settings=settings)


def feed(words, process: Process, *rows: tuple[str, int]) -> None:
    """A timestep; what was asked for before it is prepared, and holds from it on."""
    process.run()
    words.push([{"word": word, "v": v} for word, v in rows])
    process.run()


def table(harness):
    return {row.pop("word"): row for row in harness.state("counts").to_pylist()}


def test_added_aggregates_count_from_the_change_on():
    words, harness = bench()
    process = harness.start()
    feed(words, process, ("a", 1), ("b", 2))
    process.reconfigure(rc.changes.change_logic("counts", BOTH))
    feed(words, process, ("a", 3))
    assert table(harness) == {"a": {"n": 2, "total": 3}, "b": {"n": 1, "total": None}}
    assert process.position.configuration.dataflow == 2
    assert process.position.configuration.operators["counts"].logic == 2


def test_the_journal_keeps_what_it_must_know_and_no_code():
    words, harness = bench()
    process = harness.start()
    feed(words, process, ("a", 1))
    process.reconfigure(rc.changes.change_logic("counts", BOTH))
    feed(words, process, ("a", 3))
    note = harness.journal_state().notes[NOTE]
    assert sorted(note) == ["1", "2"]
    assert note["1"]["identity"]["counts"]["digest"] != note["2"]["identity"]["counts"]["digest"]
    assert note["2"]["migrations"]["counts"][0]["from"]
    assert "change_logic('counts'" in note["2"]["text"]


def test_old_text_is_told_new_text_goes_on():
    store = MemoryStore()
    words, harness = bench(store)
    process = harness.start()
    feed(words, process, ("a", 1))
    late = rc.changes.add(process_stream(process).write.memory("late", name="late"))
    process.reconfigure([rc.changes.change_logic("counts", BOTH), late])
    feed(words, process, ("a", 3))
    process.stop()
    with pytest.raises(
        OldProgramError, match=r"version 2: change_logic\('counts'.*add\('late'\)"
    ) as old:
        harness.start()
    assert "or revert the change with start(revert=True)" in str(old.value)
    words, again = bench(store, aggregates=BOTH, late=True)
    process = again.start()
    for number in (1, 3):
        words.push([{"word": "a", "v": number}])
    feed(words, process, ("a", 5))
    assert table(again) == {"a": {"n": 3, "total": 8}}
    assert [len(t) for t in again.outputs("late").values()] == [1]


def test_old_text_that_understands_the_state_is_told_of_the_way_back():
    store = MemoryStore()
    words, harness = bench(store)
    process = harness.start()
    feed(words, process, ("a", 1))
    process.reconfigure(rc.changes.add(process_stream(process).write.memory("late", name="late")))
    feed(words, process, ("a", 3))
    process.stop()
    with pytest.raises(OldProgramError, match=r"revert the change with start\(revert=True\)"):
        harness.start()
    harness.start(revert=True)


def process_stream(process):
    return stream_of(process.switch.current.program.dataflow, "counts")


def test_eras_that_are_not_stored_any_more_are_forgotten():
    words, harness = bench()
    process = harness.start()
    for number in range(12):
        process.reconfigure(
            rc.changes.change_logic("counts", BOTH if number % 2 == 0 else {"n": agg.count()})
        )
        for _ in range(5):  # small state is rewritten by every timestep: no old era survives
            feed(words, process, ("a", 1), ("b", 1))
    record = process.switch.current.program.record
    assert len(record["migrations"]["counts"]) <= 2
    assert record["eras"]["counts"].endswith(".13")
    assert table(harness) == {"a": {"n": 60}, "b": {"n": 60}}


def test_the_note_does_not_grow_with_every_change():
    words, harness = bench()
    process = harness.start()
    for number in range(KEPT + 8):
        process.reconfigure(
            rc.changes.change_logic("counts", BOTH if number % 2 == 0 else {"n": agg.count()})
        )
        feed(words, process, ("a", 1), ("b", 1))
    note = harness.journal_state().notes[NOTE]
    latest = KEPT + 9
    assert sorted(map(int, note)) == list(range(latest - KEPT + 1, latest + 1))
    full = set(note[str(latest)])
    assert {int(version) for version, one in note.items() if set(one) == full} == {
        latest,
        latest - 1,
    }
    assert table(harness)["a"]["n"] == KEPT + 8


def test_versions_that_do_not_run_any_more_are_let_go():
    words, harness = bench()
    process = harness.start()

    def held():
        gc.collect()
        return sum(isinstance(each, Program) for each in gc.get_objects())

    before = held()
    for number in range(8):
        process.reconfigure(
            rc.changes.change_logic("counts", BOTH if number % 2 == 0 else {"n": agg.count()})
        )
        feed(words, process, ("a", 1))
    assert process.switch.current.program.version == 9
    assert held() <= before + 1


def test_a_crash_before_the_border_leaves_the_version_that_runs_as_it_was():
    words, harness = bench()
    process = harness.start()
    for aggregates in (BOTH, {"n": agg.count()}):
        process.reconfigure(rc.changes.change_logic("counts", aggregates))
        feed(words, process, ("a", 1))
    known = harness.journal_state().notes[NOTE]
    again = noted(known, 4, known["3"])
    assert again["3"] == known["3"]
    assert set(again["2"]) == {"text", "identity", "incarnations", "eras"}
    assert noted(again, 3, known["3"])["3"] == known["3"]


def test_an_operator_without_state_yet_can_change_too():
    words, harness = bench()
    process = harness.start()
    process.reconfigure(rc.changes.change_logic("counts", BOTH))
    feed(words, process, ("a", 1))
    process.reconfigure(rc.changes.change_logic("counts", {"n": agg.count()}))
    feed(words, process, ("a", 1))
    assert table(harness) == {"a": {"n": 2}}


def test_what_is_removed_is_gone_with_its_state():
    words, harness = bench()
    process = harness.start()
    feed(words, process, ("a", 1))
    source = rc.read().memory(script("k long", [[{"k": 1}], [{"k": 1}]]), name="more")
    more = source.key_by("k").aggregate(n=agg.count(), name="more-counts")
    process.reconfigure(rc.changes.add(more))
    feed(words, process, ("a", 1))
    assert harness.state("more-counts").to_pylist() == [{"k": 1, "n": 2}]
    process.reconfigure(rc.changes.remove("more-counts", "more"))
    feed(words, process, ("a", 1))
    state = harness.journal_state()
    assert "more-counts" not in state.manifests
    assert "more-counts" not in process.position.configuration.operators
    with pytest.raises(UnknownOperatorError, match="more-counts"):
        harness.state("more-counts")


def test_what_cannot_be_is_refused_and_leaves_nothing_waiting():
    words, harness = bench()
    process = harness.start()
    feed(words, process, ("a", 1))
    taken = rc.read().memory(script("k long"), name="in").key_by("k")
    asked = [
        (rc.changes.change_logic("nobody", {"n": agg.count()}), UnknownOperatorError, "nobody"),
        (rc.changes.change_logic("counts", {"n": agg.count()}), RefusedError, "changes nothing"),
        (rc.changes.change_logic("counts", {"n": agg.sum("v")}), RefusedError, "'n' was"),
        (rc.changes.add(taken.aggregate(n=agg.count(), name="x")), DuplicateNameError, "in"),
        (
            [rc.changes.change_logic("counts", BOTH), rc.changes.rescale("counts", 99)],
            RefusedError,
            "8 bins",
        ),
    ]
    for change, error, match in asked:
        with pytest.raises(error, match=match):
            process.reconfigure(change)
    assert not process.switch.has(2)
    assert process.journal.state.coordination.serial == 0


def test_one_change_of_the_program_at_a_time():
    words, harness = bench()
    process = harness.start()
    feed(words, process, ("a", 1))
    process.reconfigure(rc.changes.change_logic("counts", BOTH), at=9)
    with pytest.raises(RefusedError, match="another change of the program"):
        process.reconfigure(rc.changes.change_logic("counts", BOTH))
    process.abort("r1")
    process.reconfigure(rc.changes.change_logic("counts", BOTH))
    feed(words, process, ("a", 1))
    assert process.position.configuration.dataflow == 3  # no number is given twice


def test_what_is_prepared_too_late_takes_nothing_from_the_next_one():
    words, harness = bench()
    process = harness.start()
    feed(words, process, ("a", 1))
    first = process.reconfigure(rc.changes.change_logic("counts", BOTH))
    process.changes.answer_and_prepare(process.position, dict)  # its preparation is under way
    process.abort(first)
    second = process.reconfigure(rc.changes.change_logic("counts", BOTH))
    feed(words, process, ("a", 1))
    assert process.journal.state.coordination.find(second).phase == "done"


def test_a_change_that_had_not_begun_is_rolled_back_when_its_driver_dies():
    words, harness = bench()
    process = harness.start()
    feed(words, process, ("a", 1))
    process.reconfigure(rc.changes.change_logic("counts", BOTH), at=9)
    process = harness.start()
    record = process.journal.state.coordination.find("r1")
    assert record.phase == "failed"
    assert record.reason.startswith(
        "rolled back: its functions and streams are not in this driver's memory"
    )
    feed(words, process, ("a", 1))
    assert table(harness) == {"a": {"n": 2}}


# State that a new operator begins with ---------------------------------------------------------------


def totals(process, *rows: tuple[str, int]):
    """A branch with a running total per word, and what it begins with."""
    known = pa.table(
        {"word": [w for w, _ in rows], "total": pa.array([v for _, v in rows], "int64")}
    )
    stream = stream_of(process.switch.current.program.dataflow, "in").key_by("word")
    made = stream.aggregate(total=agg.sum("v"), name="totals", preload=lambda: known)
    return rc.changes.add(made.write.memory("totals", name="totals-out"))


def begun(harness):
    return {row["word"]: row["total"] for row in harness.state("totals").to_pylist()}


def test_a_new_operator_begins_with_the_state_it_is_given():
    words, harness = bench()
    process = harness.start()
    feed(words, process, ("a", 1), ("b", 2))
    asked = process.reconfigure(totals(process, ("a", 100), ("c", 300)))
    feed(words, process, ("a", 3), ("d", 4))
    assert begun(harness) == {"a": 103, "c": 300, "d": 4}
    shown = process.changes.coordination.find(asked)
    assert shown.change.loaded == {"totals": 2}


def test_it_can_be_added_before_anything_was_read():
    words, harness = bench()
    process = harness.start()
    process.reconfigure(totals(process, ("a", 100)))
    process.run()
    assert begun(harness) == {"a": 100}
    feed(words, process, ("a", 3))
    assert begun(harness) == {"a": 103}
    assert harness.journal_state().last_committed == 1


def test_given_state_survives_a_crash_right_behind_the_border():
    store = MemoryStore()
    words, harness = bench(store)
    process = harness.start()
    feed(words, process, ("a", 1))
    process.reconfigure(totals(process, ("a", 100)))
    while harness.journal_state().configuration_at(2).dataflow == 1:
        process.step()
    text = process.switch.current.program.dataflow  # as somebody would write it now
    ends = [Flow(node=node) for node in text.nodes if isinstance(node, Sink)]
    again = Harness(ends, store=store, settings=Settings(tasks=2))
    process = again.start()
    feed(words, process, ("a", 3))
    assert begun(again) == {"a": 103}


def test_state_that_waits_for_its_border_is_not_swept():
    store = MemoryStore()
    words, harness = bench(store)
    process = harness.start()
    feed(words, process, ("a", 1))
    process.reconfigure(totals(process, ("a", 100)), at=4)
    feed(words, process, ("a", 1))
    feed(words, process, ("a", 1))
    waiting = list(store.list(segments_of("totals")))
    assert waiting
    process.sweep()
    assert list(store.list(segments_of("totals"))) == waiting
    feed(words, process, ("a", 3))
    process.sweep()
    assert begun(harness) == {"a": 103}


def test_state_of_a_change_that_was_aborted_is_swept():
    store = MemoryStore()
    words, harness = bench(store)
    process = harness.start()
    feed(words, process, ("a", 1))
    asked = process.reconfigure(totals(process, ("a", 100)), at=40)
    process.run()
    process.abort(asked)
    feed(words, process, ("a", 1))
    process.sweep()
    assert not list(store.list(segments_of("totals")))


def test_state_that_does_not_fit_is_refused_and_leaves_nothing_waiting():
    words, harness = bench()
    process = harness.start()
    feed(words, process, ("a", 1))
    twice = totals(process, ("a", 100), ("a", 200))
    with pytest.raises(DataflowError, match="'totals' has a key more than once"):
        process.reconfigure(twice)
    assert not process.switch.busy
    assert not process.switch.operators_to_come
    process.reconfigure(totals(process, ("a", 100)))
    feed(words, process, ("a", 1))
    assert begun(harness) == {"a": 101}


# Changes beside each other ---------------------------------------------------------------------------


def meanwhile(process: Process, happens) -> Process:
    """The process, in which something happens once while a version is made."""
    left = [happens]

    class Slow(Opener):
        def schemas(self, dataflow, readers):
            if left:
                left.pop()()
            return super().schemas(dataflow, readers)

    opener = process.opener
    slow = Slow(**{field.name: getattr(opener, field.name) for field in fields(opener)})
    return replace(process, parts=replace(process.parts, opener=slow))


def phases(process: Process) -> list[str]:
    return [str(record.phase) for record in process.changes.coordination.records]


def test_a_version_is_made_anew_when_another_one_begins_meanwhile():
    words, harness = bench(late=True)
    process = harness.start()
    feed(words, process, ("a", 1))
    process.reconfigure(rc.changes.change_logic("counts", BOTH), at=2)
    slow = meanwhile(process, lambda: feed(words, process, ("a", 1)))
    slow.reconfigure(rc.changes.remove("late"), supersede=True)
    feed(words, process, ("a", 1))
    assert phases(process) == ["done", "done"]
    assert process.position.configuration.dataflow == 3
    assert table(harness) == {"a": {"n": 3, "total": 2}}


def test_of_two_that_ask_at_once_the_later_one_is_refused():
    words, harness = bench()
    process = harness.start()
    feed(words, process, ("a", 1))
    refused = []

    def other():
        try:
            process.reconfigure(rc.changes.change_logic("counts", {"most": agg.max("v")}))
        except RefusedError as error:
            refused.append(str(error))

    thread = threading.Thread(target=other)

    def begin():
        thread.start()
        thread.join(0.5)  # it waits until the first one is made

    meanwhile(process, begin).reconfigure(rc.changes.change_logic("counts", BOTH))
    thread.join(60)
    assert [text.partition(":")[0] for text in refused] == [
        "another change of the program has not begun yet"
    ]
    feed(words, process, ("a", 1))
    assert table(harness) == {"a": {"n": 2, "total": 1}}


def test_a_version_that_was_made_from_another_one_is_refused():
    words, harness = bench()
    process = harness.start()
    feed(words, process, ("a", 1))
    process.reconfigure(rc.changes.change_logic("counts", BOTH), at=2)
    late = change_set(rc.changes.add(process_stream(process).write.memory("late", name="late")))
    place = process.position

    def ask():
        with offered_change(late, process.switch, process.opener, place, supersede=True) as made:
            feed(words, process, ("a", 1))
            request = Request(change=made, strategy=rc.strategies.all_at_once(), supersede=True)
            accepted(process.changes, request, process.position)

    with pytest.raises(RefusedError, match=r"made from version 1 .* the present version is 2"):
        ask()
    assert not process.switch.busy
    feed(words, process, ("a", 1))
    assert table(harness) == {"a": {"n": 3, "total": 2}}


def test_a_look_at_a_change_takes_nothing_from_one_that_is_asked_for():
    words, harness = bench()
    process = harness.start()
    feed(words, process, ("a", 1))
    asked = change_set(rc.changes.change_logic("counts", BOTH))
    with proposed_change(asked, process.switch, process.opener, process.position) as made:
        assert not process.switch.busy
        process.reconfigure(rc.changes.change_logic("counts", BOTH))
        assert made.change.version == 2
    feed(words, process, ("a", 1))
    assert phases(process) == ["done"]
    assert table(harness) == {"a": {"n": 2, "total": 1}}


def test_who_breaks_off_when_it_is_accepted_takes_nothing_back():
    words, harness = bench()
    process = harness.start()
    feed(words, process, ("a", 1))
    asked, place = change_set(rc.changes.change_logic("counts", BOTH)), process.position

    def ask():
        with offered_change(asked, process.switch, process.opener, place) as made:
            request = Request(change=made, strategy=rc.strategies.all_at_once())
            accepted(process.changes, request, place)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask()
    feed(words, process, ("a", 1))
    assert phases(process) == ["done"]


def test_a_change_whose_version_is_gone_fails_at_its_border_and_nothing_else():
    words, harness = bench()
    process = harness.start()
    feed(words, process, ("a", 1))
    process.reconfigure(rc.changes.change_logic("counts", BOTH))
    process.switch.withdraw(2)
    feed(words, process, ("a", 1))
    record = process.changes.coordination.find("r1")
    assert record.phase == "failed"
    assert record.reason.startswith("its functions and streams are not in this driver's memory")
    assert table(harness) == {"a": {"n": 2}}


class Stuck(Recorder):
    """A sink that cannot be closed."""

    def close(self) -> None:
        msg = "the connection is gone"
        raise OSError(msg)


def test_a_sink_that_cannot_be_closed_does_not_end_the_job_whose_version_does_not_begin(caplog):
    words, harness = bench()
    process = harness.start()
    feed(words, process, ("a", 1))
    harness.recorders["late"] = Stuck()
    counts = stream_of(process.switch.current.program.dataflow, "counts")
    process.reconfigure(rc.changes.add(counts.write.memory("late", name="late")), at=9)
    with caplog.at_level(logging.WARNING):
        process.abort("r1")
    assert phases(process) == ["aborted"]
    assert "'late' is no longer used and could not be closed: the connection is gone" in caplog.text
    feed(words, process, ("a", 1))
    assert table(harness) == {"a": {"n": 2}}


def test_a_change_of_the_program_may_take_the_place_of_one_that_has_not_begun():
    words, harness = bench()
    process = harness.start()
    feed(words, process, ("a", 1))
    process.reconfigure(rc.changes.change_logic("counts", {"most": agg.max("v")}), at=1_000_000)
    with pytest.raises(RefusedError, match="supersede=True"):
        process.reconfigure(rc.changes.change_logic("counts", BOTH))
    process.reconfigure(rc.changes.change_logic("counts", BOTH), supersede=True)
    feed(words, process, ("a", 1))
    assert phases(process) == ["superseded", "done"]
    assert not process.switch.busy
    assert table(harness) == {"a": {"n": 2, "total": 1}}
