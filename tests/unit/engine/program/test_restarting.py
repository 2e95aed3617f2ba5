"""What a restart with other program text may do, and what it is told."""

from __future__ import annotations

import logging
from dataclasses import replace

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.graph.schema import known
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.engine.program.restarting import check_state, elsewhere, lasting, sources_of
from rechannel.engine.program.versions import bound
from rechannel.errors import OtherDataflowError, RefusedError
from rechannel.job import InProcess, Job
from rechannel.settings import Settings
from rechannel.testing import Harness, MemoryStore, script

HOUR = 3_600_000


def stream(name: str = "in", rows=None):
    rows = rows or script("k string, at timestamp")
    return rows, rc.read().memory(rows, name=name)


def run(flow, rows, store, **options) -> Harness:
    harness = Harness(flow, store=store)
    process = harness.start(**options)
    rows.push([{"k": "a"}])
    process.run()
    process.stop()
    return harness


def counted(each):
    return each.key_by("k").aggregate(n=agg.count(), name="counts").write.memory("out")


# Sources -------------------------------------------------------------------------------------------


def test_a_renamed_source_is_refused_before_anything_is_read_twice():
    store = MemoryStore()
    rows, before = stream("rides")
    run(counted(before), rows, store)
    _, after = stream("trips", rows)
    harness = Harness(counted(after), store=store)
    with pytest.raises(
        OtherDataflowError,
        match=r"\['trips'\], and \['rides'\].*name='rides'.*without=\['rides'\]",
    ):
        harness.start()
    assert harness.journal_state().offsets == {"rides": {"batches": 1}}


def test_a_source_more_says_that_it_begins():
    store = MemoryStore()
    rows, one = stream("one")
    run(counted(one), rows, store)
    more, two = stream("two")
    harness = Harness(counted(one.union(two)), store=store)
    with pytest.raises(
        OtherDataflowError, match=r"'two'.*rc.changes.add.*start\(fresh=\['two'\]\)"
    ):
        harness.start()
    for _ in range(2):  # said again, it changes nothing
        process = harness.start(fresh=["two"])
        more.push([{"k": "b"}])
        process.run()
        process.stop()
    assert harness.journal_state().offsets == {"one": {"batches": 1}, "two": {"batches": 2}}


def test_fresh_names_sources_of_the_program():
    _, one = stream("one")
    with pytest.raises(RefusedError, match=r"unknown sources; the program has \['one'\]"):
        Harness(counted(one)).start(fresh=["on"])


def test_a_source_less_says_that_its_place_is_given_up():
    store = MemoryStore()
    rows, one = stream("one")
    _, two = stream("two")
    run(counted(one.union(two)), rows, store)
    assert sorted(Harness(counted(one), store=store).journal_state().offsets) == ["one", "two"]
    with pytest.raises(
        OtherDataflowError, match=r"'two'.*rc.changes.remove.*start\(without=\['two'\]\)"
    ):
        Harness(counted(one), store=store).start()
    for _ in range(2):  # said again, it changes nothing
        Harness(counted(one), store=store).start(without=["two"]).stop()
    assert sorted(Harness(counted(one), store=store).journal_state().offsets) == ["one"]


def test_before_the_first_timestep_any_source_may_come():
    store = MemoryStore()
    _, one = stream("one")
    Harness(counted(one), store=store).start().stop()
    rows, two = stream("two")
    harness = run(counted(two), rows, store)
    assert harness.journal_state().offsets == {"two": {"batches": 1}}


def test_a_source_of_another_kind_does_not_take_an_offset_over():
    store = MemoryStore()
    rows, one = stream("in")
    run(counted(one), rows, store)
    other = rc.read().files("nowhere/*.parquet", schema="k string", name="in")
    with pytest.raises(OtherDataflowError, match="would change from memory to parquet nowhere"):
        Harness(counted(other), store=store).start()


def test_another_place_under_a_name_is_told():
    _, one = stream("in")
    dataflow = dataflow_of(counted(one))
    assert elsewhere(dataflow, {"sources": sources_of(dataflow)}) == []
    assert elsewhere(dataflow, {}) == []
    held = {"sources": {"in": {"kind": "MemoryConnector", "place": "memory of before"}}}
    (told,) = elsewhere(dataflow, held)
    assert "'in' was memory of before and is now memory" in told


def test_tables_of_lookups_are_no_sources_that_count():
    _, one = stream("in")
    table = pa.table({"k": ["a"], "v": [1]})
    looked = one.lookup(table, on="k", name="looked")
    assert list(sources_of(dataflow_of(looked.write.memory("out")))) == ["in"]


def test_a_source_does_not_inherit_the_offset_of_one_that_went():
    store = MemoryStore()
    keep, kept = stream("keep")
    old, feed = stream("feed")
    flows = [kept.write.memory("m", name="m"), feed.write.memory("a", name="a")]
    harness = Harness(flows, store=store)
    process = harness.start()
    for key in "abc":
        old.push([{"k": key}])
    process.run()
    assert harness.journal_state().offsets["feed"] == {"batches": 3}
    process.reconfigure(rc.changes.remove("a", "feed"))
    keep.push([{"k": "z"}])
    process.run()
    assert "feed" not in harness.journal_state().offsets
    again, second = stream("feed")
    for key in "de":
        again.push([{"k": key}])
    process.reconfigure(rc.changes.add(second.write.memory("b", name="b")))
    process.run()
    shown = pa.concat_tables(harness.outputs("b").values())
    assert shown.column("k").to_pylist() == ["d", "e"]
    assert harness.journal_state().offsets["feed"] == {"batches": 2}


def test_a_timestep_that_runs_again_reads_nothing_of_a_source_that_was_not_there():
    store = MemoryStore()
    rows, one = stream("one")
    harness = Harness(counted(one), store=store)
    process = harness.start()
    rows.push([{"k": "a"}])
    process.driver.step()  # intended, and not committed
    assert [intent.timestep for intent in harness.journal_state().open_intents] == [1]
    more, two = stream("two")
    more.push([{"k": "b"}])
    harness = Harness(counted(one.union(two)), store=store)
    harness.start(fresh=["two"]).run()
    assert harness.journal_state().offsets == {"one": {"batches": 1}, "two": {"batches": 1}}
    assert sorted(row["k"] for row in harness.output().to_pylist()) == ["a", "b"]


# State ---------------------------------------------------------------------------------------------


def deduplicated(within: str | None):
    rows, each = stream()
    timed = each.event_time("at", delay="1 second")
    return rows, timed.deduplicate("k", within=within, name="once").write.memory("out")


def test_how_long_keys_are_remembered_does_not_change_at_a_restart():
    store = MemoryStore()
    rows, before = deduplicated("5 seconds")
    run(before, rows, store)
    _, after = deduplicated("50 seconds")
    with pytest.raises(OtherDataflowError, match=r"'once'.*from 5000000 by at to 50000000 by at"):
        Harness(after, store=store).start()


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [(1, 1, False), (2, 1, False), (1, 2, True), (1, None, True), (None, 1, False)],
)
def test_keys_that_a_timeout_has_ended_do_not_come_back(before, after, refused):
    def lasts(timeout):
        _, each = stream()
        track = each.key_by("k").track(
            lambda key, state, rows: state, state="n int", timeout=timeout, name="track"
        )
        dataflow = dataflow_of(track.write.memory("out"))
        return lasting(
            dataflow, bound(dataflow, {node.name: known(node) for node in dataflow.nodes})
        )

    one, two = (lasts(hours and f"{hours} hours") for hours in (before, after))
    if refused:
        with pytest.raises(
            OtherDataflowError, match=f"'track'.*timeout would change from {HOUR} ms"
        ):
            check_state({}, two, {"lasting": one})
    else:
        check_state({}, two, {"lasting": one})


def test_what_differs_is_told():
    store = MemoryStore()
    rows, one = stream()
    run(counted(one), rows, store)
    flow = one.key_by("k").aggregate(n=agg.count("k"), name="counts").write.memory("out")
    with pytest.raises(OtherDataflowError, match=r"'counts' was aggregate\(n=Count\(column=None"):
        Harness(flow, store=store).start()


def test_journals_of_before_say_nothing_of_it():
    check_state({"a": "x"}, {"a": {"fixed": "1", "timeout_ms": None}}, {"operators": {"a": "x"}})


# Settings ------------------------------------------------------------------------------------------


def test_tasks_and_bins_of_the_settings_that_are_not_looked_at_are_told(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "rechannel")
    settings = Settings(tasks=2, bins=8)
    rows, each = stream()
    for other in (settings, settings, replace(settings, tasks=3, bins=16)):
        assert caplog.messages == []
        rows.push([{"k": "a"}])
        job = Job("counts", counted(each), state=tmp_path, settings=other)
        running = job.start(in_process=InProcess())
        running.process_all_available()
        running.stop()
    told = {text.split(": ", 1)[1].split()[0] for text in caplog.messages}
    assert told == {"tasks", "bins"}
    assert any("rc.changes.rescale(" in text for text in caplog.messages)
