"""Sinks that come, go and fail while a whole job runs: whose timesteps are whose, over crashes and restarts."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.evolution.evolution import stream_of
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.engine.journal.reading import read_only
from rechannel.engine.reconfigure.opener import Opener
from rechannel.errors import OtherDataflowError, SourceError
from rechannel.job import InProcess, Job
from rechannel.settings import Settings
from rechannel.sinks.batch import Batch
from rechannel.state.stores.local import LocalStore
from rechannel.state.stores.memory import MemoryStore
from rechannel.testing import Harness, Recorder, script


def counts(source):
    return rc.read().memory(source, name="in").key_by("k").aggregate(n=agg.count(), name="counts")


def numbers(recorder: Recorder) -> list[int]:
    return sorted(recorder.published)


def owing(source, recorders):
    """A harness whose sink o owes timesteps 1 and 2: nothing is published yet."""
    made = counts(source)
    flows = [made.write.memory("m", name="m"), made.write.memory("o", name="o")]
    harness = Harness(flows, settings=Settings(publish_backlog=20), recorders=recorders)
    process = harness.start()
    unpublished(process)
    assert sorted(harness.journal_state().unpublished) == [1, 2]
    return harness, process


def unpublished(process) -> None:
    """Everything but publishing."""
    while process.driver.step() or (len(process.executor) and process.executor.run(0)):
        pass


def test_a_sink_that_is_removed_is_given_what_it_is_owed_and_its_namesake_is_not():
    source = script("k string", [[{"k": "a"}], [{"k": "b"}]])
    old = Recorder()
    harness, process = owing(source, {"o": old})
    process.reconfigure(rc.changes.remove("o"))
    unpublished(process)
    new = harness.recorders["o"] = Recorder()
    process.reconfigure(rc.changes.add(added(process)))
    unpublished(process)
    source.push([{"k": "c"}])
    process.run()
    assert numbers(old) == [1, 2]
    assert numbers(new) == [3]
    assert not harness.journal_state().unpublished


def added(process):
    stream = stream_of(process.switch.current.program.dataflow, "counts", None)
    return stream.write.memory("o", name="o")


def test_after_a_crash_what_a_sink_that_is_gone_was_owed_is_told_and_dropped():
    source = script("k string", [[{"k": "a"}], [{"k": "b"}]])
    old = Recorder()
    harness, process = owing(source, {"o": old})
    before = harness.journal_state()
    process.reconfigure(rc.changes.remove("o"))
    unpublished(process)
    new = harness.recorders["o"] = Recorder()
    process = harness.start(revert=True)  # the text of before has a sink of that name
    source.push([{"k": "c"}])
    process.run()
    assert numbers(old) == []
    assert numbers(new) == [3]
    after = harness.journal_state()
    assert not after.unpublished
    sinks = [state.notes["incarnations"]["sinks"]["o"]["id"] for state in (before, after)]
    assert sinks[0] != sinks[1]


def lines(folder: Path) -> list[dict]:
    return [
        json.loads(text)
        for p in sorted(folder.rglob("*.json"))
        for text in p.read_text().splitlines()
    ]


def test_a_function_that_fails_for_one_timestep_sends_it_to_its_dead_letters(tmp_path):
    source = script("k string")
    seen: list[Batch] = []

    def write(df, timestep, batch):
        if timestep == 2:
            raise ValueError("not this one")
        seen.append(batch)

    patient = counts(source).write.on_failure(
        "dead_letter", attempts=2, pause_ms=0, path=tmp_path / "dead"
    )
    job = Job("j", [patient.for_each_batch(write, name="o")], state=str(tmp_path / "state"))
    running = job.start(in_process=InProcess())
    for key in "abc":
        source.push([{"k": key}])
        running.process_all_available(60)
    assert running.sinks["o"].owed == 0
    running.stop()
    assert [batch.timestep for batch in seen] == [1, 3]
    assert len({batch.digest for batch in seen}) == 2
    (dead,) = (tmp_path / "dead").glob("timestep=*")
    assert dead.name == "timestep=000000000002"
    entries = (tmp_path / "state" / "journal").glob("*.json")
    told = [body for p in entries if (body := json.loads(p.read_text()))["kind"] == "published"]
    dropped = {each["body"]["timestep"]: each["body"].get("dropped") for each in told}
    assert set(dropped) == {1, 2, 3}
    assert "not this one" in dropped[2]
    assert dropped[1] is dropped[3] is None


def patient(source, root, write, dead=None):
    """One sink under one name. dead: where its dead letters go, None = it stops the job."""
    writer = counts(source).write
    if dead is not None:
        writer = writer.on_failure("dead_letter", attempts=1, pause_ms=0, path=root / dead)
    return writer.for_each_batch(write, name="o")


def test_what_becomes_of_a_sink_that_fails_is_changed_while_the_job_runs(tmp_path):
    source = script("k string", [[{"k": "a"}]])
    seen: list[int] = []

    def write(df, timestep):
        if timestep > 1:
            raise ValueError("not any more")
        seen.append(timestep)

    job = Job("j", [patient(source, tmp_path, write)], state=str(tmp_path / "state"))
    running = job.start(in_process=InProcess())
    running.process_all_available(60)
    for number, dead in ((2, "dead"), (3, "other")):
        flow = patient(source, tmp_path, write, dead)
        running.reconfigure(rc.changes.change_dataflow(flow)).wait(60)
        source.push([{"k": "b"}])
        running.process_all_available(60)
        assert [path.name for path in (tmp_path / dead).glob("timestep=*")] == [
            f"timestep={number:012d}"
        ]
    running.stop()
    assert seen == [1]


def test_a_sink_that_is_changed_calls_the_function_that_it_has_now():
    source = script("k string", [[{"k": "a"}]])
    old: list[int] = []
    new: list[int] = []
    flow = counts(source).write.for_each_batch(lambda df, t: old.append(t), name="o")
    running = Job("j", [flow], state=MemoryStore()).start(in_process=InProcess())
    running.process_all_available(60)
    write = counts(source).write.on_failure("stop", attempts=2)
    flow = write.for_each_batch(lambda df, t: new.append(t), name="o")
    running.reconfigure(rc.changes.change_dataflow(flow)).wait(60)
    source.push([{"k": "b"}])
    running.process_all_available(60)
    running.stop()
    assert (old, new) == ([1], [2])


def test_the_rows_of_a_table_outlive_another_choice_for_its_sink(tmp_path):
    source = script("k string", [[{"k": "a"}]])
    flow = counts(source).write.memory("m", name="o")
    running = Job("j", [flow], state=MemoryStore()).start(in_process=InProcess())
    running.process_all_available(60)
    write = counts(source).write.on_failure("dead_letter", path=tmp_path / "dead")
    flow = write.memory("m", name="o")
    running.reconfigure(rc.changes.change_dataflow(flow)).wait(60)
    source.push([{"k": "b"}])
    running.process_all_available(60)
    assert running.memory("m").num_rows == 2
    running.stop()


def test_a_sink_in_quarantine_keeps_its_files_over_sweeps_and_restarts(tmp_path):
    source = script("k string")
    broken, shown = Event(), []
    broken.set()

    def write(df, timestep):
        if broken.is_set():
            raise ValueError("away")
        shown.append((timestep, df.num_rows))

    def text() -> Job:
        made = counts(source)
        owes = made.write.on_failure("skip", attempts=1).for_each_batch(write, name="o")
        flows = [owes, made.write.json(str(tmp_path / "good"), name="good")]
        return Job("j", flows, state=str(tmp_path / "state"))

    running = text().start(in_process=InProcess())
    for number in range(20):  # beyond a sweep
        source.push([{"k": f"k{number}"}])
        running.process_all_available(60)
    assert running.sinks["o"].owed == 20
    assert running.sinks["o"].quarantine.startswith("UserFunctionError")
    running.stop()
    assert len(lines(tmp_path / "good")) == 20
    running = text().start(in_process=InProcess())
    running.process_all_available(60)
    assert "in quarantine" in running.status.troubles["sink o"]
    broken.clear()
    assert running.release("o") == 20
    running.process_all_available(60)
    assert running.sinks["o"].quarantine is None
    running.stop()
    assert shown == [(number + 1, 1) for number in range(20)]
    assert not read_only(LocalStore(tmp_path / "state")).unpublished


def test_a_sink_in_quarantine_leaves_the_text_only_on_purpose_and_is_forgotten_then(tmp_path):
    source = script("k string")

    def write(df, timestep):
        raise ValueError("away")

    made = counts(source)
    good = made.write.memory("m", name="m")
    owes = made.write.on_failure("skip", attempts=1).for_each_batch(write, name="o")
    running = Job("j", [owes, good], state=str(tmp_path)).start(in_process=InProcess())
    source.push([{"k": "a"}])
    running.process_all_available(60)
    running.stop()
    assert read_only(LocalStore(tmp_path)).notes["quarantine"]
    without = Job("j", [good], state=str(tmp_path))
    with pytest.raises(OtherDataflowError, match=r"timesteps 1 to 1 .* start\(without=\['o'\]\)"):
        without.start(in_process=InProcess())
    assert read_only(LocalStore(tmp_path)).unpublished
    running = without.start(in_process=InProcess(), without=["o"])
    running.process_all_available(60)
    running.stop()
    state = read_only(LocalStore(tmp_path))
    assert "quarantine" not in state.notes
    assert not state.unpublished


class Marked(Recorder):
    """Of two sinks of one name: the place knows what it has by this name, and the last timestep alone."""

    def __init__(self, rows: dict[int, object]) -> None:
        super().__init__()
        self.rows = rows

    def publish(self, staged, batch):
        if batch.timestep > max(self.rows, default=0):
            super().publish(staged, batch)
            self.rows[batch.timestep] = staged


@pytest.mark.parametrize("oldest_first", [True, False])
def test_a_sink_is_not_written_before_its_namesake_is_given_what_it_is_owed(oldest_first):
    rows = {}
    source = script("k string", [[{"k": "a"}], [{"k": "b"}]])
    harness, process = owing(source, {"o": Marked(rows)})
    process.reconfigure(rc.changes.remove("o"))
    unpublished(process)
    harness.recorders["o"] = Marked(rows)
    process.reconfigure(rc.changes.add(added(process)))
    unpublished(process)
    source.push([{"k": "c"}])
    unpublished(process)
    publisher = process.publisher
    while turns := publisher.turns():
        [*turns.values()][0 if oldest_first else -1]()
    process.run()
    assert sorted(rows) == [1, 2, 3]


def test_where_a_source_cannot_be_opened_no_other_stays_open():
    opened: list[str] = []
    closed: list[str] = []

    def reader(source):
        if source.name == "second":
            raise SourceError("nothing there")
        opened.append(source.name)
        return SimpleNamespace(close=lambda: closed.append(source.name))

    first, second = (rc.read().memory(script("k INT"), name=name) for name in ("first", "second"))
    dataflow = dataflow_of(first.union(second).write.noop(name="out"))
    opener = Opener(store=None, ask=None, reader=reader, writer=None, loader=None, defaults={})
    with pytest.raises(SourceError, match="nothing there"):
        opener.readers(dataflow, {})
    assert opened == closed == ["first"]
