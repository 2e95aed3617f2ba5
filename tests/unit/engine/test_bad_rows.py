"""A bound on bad rows ends a job before the commit, and what a user sees of it."""

from __future__ import annotations

import pytest

import rechannel as rc
from rechannel.engine.journal.folds.timesteps import WITHDRAWN
from rechannel.engine.journal.snapshot import from_bytes, to_bytes
from rechannel.errors import DataflowError, TooManyBadRowsError
from rechannel.model.bad_rows import Counted, Past
from rechannel.settings import Settings
from rechannel.telemetry.facts import BadRows
from rechannel.testing import Harness, script


def number(row):
    return int(row.v)


def flows(source, on_error):
    parsed = (
        rc.read().memory(source, name="in").map(number, "n INT", on_error=on_error, name="parse")
    )
    out = parsed.write.memory("out", name="out")
    return [out, rc.dead_letters(out).write.memory("dead", name="dead")]


def push(source, *values):
    source.push([{"v": value} for value in values])


def test_the_error_names_the_operator_the_counts_the_bound_a_row_and_what_to_do():
    source = script("v STRING")
    harness = Harness(flows(source, rc.at_most(percent=25, timesteps=2)))
    process = harness.start()
    push(source, "1", "2", "x", "4")
    process.run()
    push(source, "1", "y" * 600)
    with pytest.raises(TooManyBadRowsError) as caught:
        process.run()
    said = str(caught.value)
    assert said.startswith(
        "operator 'parse', timestep 2: 2 of 6 rows (33.3 %) in the last 2 timesteps are bad, which is more than"
        ' at_most(percent=25, timesteps=2). One of them: {"v": "yyy'
    )
    assert "…: ValueError: invalid literal" in said
    assert len(said) < 1_500
    assert said.endswith(
        "Nothing of the timestep was committed: correct the function or raise the bound in the program, and start"
        " again; if you correct the data, have the timestep planned anew with start(replan=True)"
    )
    assert list(harness.outputs("dead")) == [1]


def test_a_higher_bound_or_another_function_lets_it_go_on():
    source = script("v STRING")
    harness = Harness(flows(source, rc.at_most(rows=0)))
    push(source, "1", "x")
    with pytest.raises(TooManyBadRowsError):
        harness.start().run()
    store = harness.store
    raised = Harness(flows(source, rc.at_most(rows=1, timesteps=3)), store=store)
    raised.start().run()
    assert raised.journal_state().last_committed == 1
    assert len(raised.outputs("dead")[1]) == 1


def test_a_bound_holds_however_often_the_job_is_started_again():
    source = script("v STRING")
    settings = Settings(replan_after=1)
    harness = Harness(flows(source, rc.at_most(percent=40)), settings=settings)
    push(source, "x", "1")
    for drivers in range(1, 5):
        with pytest.raises(TooManyBadRowsError):
            harness.start().run()
        state = harness.journal_state()
        assert state.notes["bounded"]["drivers"] == drivers
        assert (state.attempts, WITHDRAWN in state.notes) == (drivers, False)
        push(source, "2", "3")
    assert not harness.outputs("out")


def test_a_live_change_of_the_function_keeps_the_bound():
    source = script("v STRING")
    harness = Harness(flows(source, rc.at_most(rows=1, timesteps=2)))
    process = harness.start()
    push(source, "x", "1")
    process.run()
    process.reconfigure(rc.changes.change_logic("parse", lambda row: int(row.v[1:])))
    process.run()
    push(source, "a1", "bb")
    with pytest.raises(TooManyBadRowsError, match="2 of 4 rows"):
        process.run()


def test_counts_are_in_the_journal_and_its_snapshots_as_long_as_they_are_needed():
    source = script("v STRING")
    harness = Harness(flows(source, rc.at_most(rows=5, timesteps=2)))
    process = harness.start()
    for values in (["1", "x"], ["2", "3", "y", "z"]):
        push(source, *values)
        process.run()
    kept = {"parse": (Past(timestep=2, counted=Counted(rows=4, bad=2, keep=1)),)}
    state = harness.journal_state()
    assert state.bad_rows == kept
    assert from_bytes(to_bytes(state), name="snapshot").bad_rows == kept


def test_a_new_operator_does_not_go_on_with_the_counts_of_one_that_was_removed():
    source = script("v STRING")
    bound = rc.at_most(rows=1, timesteps=5)
    harness = Harness(flows(source, bound))
    push(source, "1", "x")
    harness.start().run()
    assert set(harness.journal_state().bad_rows) == {"parse"}
    plain = rc.read().memory(source, name="in").write.memory("plain", name="plain")
    without = Harness(plain, store=harness.store)
    without.start(upgrade=True).run()
    assert harness.journal_state().bad_rows == {}


def test_a_removed_operator_takes_its_counts_with_it_while_the_job_runs():
    source = script("v STRING")
    plain = rc.read().memory(source, name="in").write.memory("plain", name="plain")
    bound = flows(source, rc.at_most(rows=1, timesteps=9))
    harness = Harness(bound)
    process = harness.start()
    push(source, "1", "x")
    process.run()
    for dataflow in ([plain], bound):
        process.reconfigure(rc.changes.change_dataflow(*dataflow))
        process.run()
        push(source, "2")
        process.run()
        assert [past.counted.bad for past in harness.journal_state().bad_rows.get("parse", ())] == (
            [] if dataflow == [plain] else [0]
        )
    push(source, "3", "y")  # the only one since it was added
    process.run()
    assert harness.journal_state().last_committed == 4


def test_without_a_bound_nothing_is_kept():
    source = script("v STRING")
    harness = Harness(flows(source, "dead_letter"))
    push(source, "1", "x")
    harness.start().run()
    assert harness.journal_state().bad_rows == {}


def test_status_and_progress_count_by_operator(tmp_path):
    source = script("v STRING")
    job = rc.Job("count", flows(source, rc.at_most(rows=5)), state=tmp_path)
    running = job.start(in_process=rc.InProcess())
    push(source, "1", "x", "2")
    running.process_all_available()
    push(source, "1", "y")
    running.process_all_available()
    assert running.last_progress.bad_rows == {"parse": BadRows(rows=2, bad=1, failed={})}
    assert running.status.bad_rows == {"parse": BadRows(rows=5, bad=2, failed={})}
    running.stop()


def test_what_is_no_bound_is_refused_with_what_is_one():
    source = rc.read().memory(script("v STRING"), name="in")
    with pytest.raises(DataflowError, match=r"or say with rc.at_most\(...\) how many"):
        source.map(number, "n INT", on_error="drop")


def test_a_bound_needs_a_sink_for_dead_letters_too():
    source = rc.read().memory(script("v STRING"), name="in")
    parsed = source.map(number, "n INT", on_error=rc.at_most(rows=1), name="parse")
    with pytest.raises(DataflowError, match="no sink reads the dead letters of map 'parse'"):
        Harness(parsed.write.memory("out"))
