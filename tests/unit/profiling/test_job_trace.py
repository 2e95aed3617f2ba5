"""The telemetry of a job as a trace: made up, where times are compared, and of jobs that ran."""

from __future__ import annotations

import json
from types import SimpleNamespace

import polars as pl
import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.cli.app import execute
from rechannel.errors import TraceError
from rechannel.job import InProcess, Job
from rechannel.profiling.job_files import job_files, read_job
from rechannel.profiling.job_log import JobLog
from rechannel.profiling.job_trace import job_trace
from rechannel.profiling.reading import analyse, analysis
from rechannel.profiling.summaries import profile
from rechannel.telemetry.events import (
    JobStarted,
    JobStopped,
    Note,
    OperatorFinished,
    SinkPublished,
    TimestepCommitted,
    TimestepFailed,
    TimestepStarted,
    event_to_json,
)
from rechannel.telemetry.task_finished import Sent, SparkMetrics, TaskFinished
from rechannel.testing import script

START = 1_700_000_000_000
MS = 1_000_000


def began(at=0, **more) -> JobStarted:
    versions = {"rechannel": "9"}
    return JobStarted(job="j", at_ms=START + at, engine="spark", versions=versions, **more)


def started(at, number=1) -> TimestepStarted:
    return TimestepStarted(timestep=number, now_ms=0, at_ms=START + at)


def committed(at, plan=2, run=100, commit=4, release=1, number=1) -> TimestepCommitted:
    """at: when it began."""
    phases = {"plan": plan, "run": run, "commit": commit, "release": release}
    took = plan + run + commit
    return TimestepCommitted(
        timestep=number, at_ms=START + at + took, duration_ms=took, phases=phases
    )


def task(operator, index, begin, ms, *, launch=None, finish=None, number=1, to=(), **more):
    """begin: of its function, which lasts as long as its activities. launch, finish: as Spark measured."""
    spark = None
    if launch is not None:
        again, shuffle = more.pop("again", 0), more.pop("shuffle", 0)
        spark = SparkMetrics(
            stage=0,
            partition=index,
            attempt=again,
            executor="1",
            host="h",
            launch_ms=START + launch,
            finish_ms=START + finish,
            shuffle_write_ms=shuffle,
        )
    sent = tuple(Sent(operator=name, input=0, offered=1, rows=1, keys=1, bytes=1) for name in to)
    last = START + begin + more.pop("lasted", sum(ms.values()))
    return TaskFinished(
        timestep=number,
        operator=operator,
        task=index,
        attempt="a",
        host="h",
        started_ms=START + begin,
        finished_ms=last,
        ms=ms,
        sent=sent,
        spark=spark,
        **more,
    )


def published(at, took, number=1) -> SinkPublished:
    return SinkPublished(timestep=number, sink="out", at_ms=START + at, duration_ms=took)


def small() -> list:
    """One timestep on Spark: a front of two tasks, and two tasks with state, of which the second has most rows."""
    front = {"wait": 5, "process": 10, "send": 5}
    return [
        began(),
        started(10),
        OperatorFinished(timestep=1, operator="rows", at_ms=START + 43),
        task("rows", 0, 20, front, launch=15, finish=43, to=["counts"], shuffle=2),
        task("rows", 1, 18, front, launch=15, finish=40, to=["counts"], lasted=21),
        task("counts", 0, 50, {"wait": 1, "process": 9}, launch=45, finish=62, bins="x"),
        task("counts", 1, 50, {"wait": 1, "lookup": 4, "process": 55}, launch=45, finish=111, bins="x"),
        committed(10),
        published(130, 10),
        Note(at_ms=START, topic="t", text="is nothing to a profile"),
        JobStopped(job="j", at_ms=START + 150),
    ]  # fmt: skip


def made(events):
    log = JobLog()
    for event in events:
        log.see(event)
    log.close()
    return job_trace(log)


def spans(trace, worker) -> list:
    """(kind, from, to) of a worker, ms since the start, but for its waiting all the time."""
    did, names = trace.activities, trace.names
    rows = [
        (
            names.kinds[did.kind[i]],
            (did.start[i] - START * MS) / MS,
            (did.end[i] - START * MS) / MS,
        )
        for i in range(len(did))
        if names.workers[did.worker[i]] == worker
    ]
    if worker != "driver":
        rows.remove(max(rows, key=lambda row: row[2] - row[1]))
    return sorted(rows, key=lambda row: row[1])


def messages(trace) -> list:
    """(from, to, kind, sent, received), ms since the start."""
    went, names = trace.messages, trace.names
    return [
        (
            names.workers[went.source[i]],
            names.workers[went.target[i]],
            names.kinds[went.kind[i]],
            (went.sent[i] - START * MS) / MS,
            (went.received[i] - START * MS) / MS,
        )
        for i in range(len(went))
    ]


def by_worker(trace, window=10**9) -> dict:
    """CP of every worker; that of all edges of a window is 1."""
    found = profile(trace, window=window)
    sums = found.cells.group_by("window").agg(pl.col("critical").sum())
    assert sums["critical"].to_list() == pytest.approx([1.0] * len(found.windows))
    return dict(found.by_worker().select("worker", "critical").iter_rows())


def test_what_tasks_and_the_driver_did():
    trace = made(small()).trace
    assert list(trace.names.operators) == ["rows", "counts", "out"]
    assert list(trace.names.workers) == [
        *("driver", "publisher"),
        *("rows task 0", "rows task 1", "counts task 0", "counts task 1"),
    ]
    assert spans(trace, "rows task 0") == [
        ("read", 20, 25),
        ("process", 25, 35),
        ("send", 35, 40),
        ("shuffle write", 40, 42),
    ]
    # A millisecond of this one is not named.
    assert spans(trace, "rows task 1")[-1] == ("other", 38, 39)
    assert spans(trace, "counts task 1") == [
        ("waiting", 50, 51),
        ("lookup", 51, 55),
        ("process", 55, 110),
    ]
    assert spans(trace, "driver") == [
        ("idle", 0, 10),
        ("planning", 10, 12),
        ("scheduling", 12, 15),
        ("waiting", 15, 40),
        ("waiting", 40, 43),
        ("scheduling", 43, 45),
        ("waiting", 45, 62),
        ("waiting", 62, 111),
        ("scheduling", 111, 112),
        ("commit", 112, 116),
        ("release", 116, 117),
        ("idle", 117, 150),
    ]
    assert spans(trace, "publisher") == [("publish", 120, 130)]


def test_what_went_between_them():
    found = messages(made(small()).trace)
    control, data = "control message", "data message"
    assert [row for row in found if "counts task 1" in row] == [
        ("driver", "counts task 1", control, 45, 50),
        ("counts task 1", "driver", control, 110, 111),
        # It asks the task that was done last.
        ("counts task 1", "rows task 0", control, 50, 50.000001),
        ("rows task 0", "counts task 1", data, 50.000001, 51),
    ]
    assert ("rows task 0", "driver", control, 42, 43) in found
    assert ("driver", "publisher", control, 116, 120) in found
    assert len(found) == 4 * 2 + 2 * 2 + 1


def test_the_task_that_the_others_wait_for_leads():
    trace = made(small()).trace
    workers = by_worker(trace, window=150 * MS)
    assert workers["counts task 0"] == workers["rows task 1"] == 0
    assert workers["counts task 1"] == pytest.approx(59 / 150, abs=0.01)
    assert max(workers, key=workers.get) == "counts task 1"
    assert set(by_worker(trace, window=20 * MS)) == set(trace.names.workers)


def test_without_figures_of_spark_tasks_are_launched_when_they_begin():
    """As in process: one task after the other, each released by the driver."""
    ms = {"process": 20}
    events = [
        began(),
        started(0),
        task("rows", 0, 2, {"send": 10}, to=["counts"]),
        task("counts", 0, 12, ms, bins="x"),
        task("counts", 1, 32, {"process": 70}, bins="x"),
        committed(0),
    ]
    trace = made(events).trace
    workers = by_worker(trace)
    assert workers["counts task 1"] == pytest.approx(70 / 107)
    assert workers["counts task 0"] == pytest.approx(20 / 107)
    assert workers["rows task 0"] == pytest.approx(10 / 107)
    assert spans(trace, "driver") == [
        ("planning", 0, 2),
        ("waiting", 2, 12),
        ("waiting", 12, 32),
        ("waiting", 32, 102),
        ("commit", 102, 106),
        ("release", 106, 107),
    ]


def test_phases_are_never_longer_than_the_task():
    short = task("rows", 0, 2, {"wait": 4, "process": 8, "send": 8}, lasted=10)
    later = task("rows", 1, 20, {"of a later version": 4}, lasted=4)
    trace = made([began(), started(0), short, later, committed(0)]).trace
    assert spans(trace, "rows task 0") == [("read", 2, 6), ("process", 6, 12)]
    assert spans(trace, "rows task 1") == [("other", 20, 24)]


def test_clocks_that_do_not_agree():
    """A worker's clock is an hour late, another one's early; the driver's is set back."""
    hour = 3_600_000
    late = task("rows", 0, 20 + hour, {"process": 20}, launch=15, finish=43)
    early = task("rows", 1, 18 - hour, {"process": 200}, launch=15, finish=40)
    unknown = task("rows", 2, 18 - hour, {"process": 30})
    found = made([began(), started(10), late, early, unknown, committed(10)])
    assert found.moved == 3
    assert "clocks of 3 tasks" in found.notes[0]
    assert spans(found.trace, "rows task 0") == [("process", 23, 43)]
    assert spans(found.trace, "rows task 1") == [("process", 15, 40)]
    assert spans(found.trace, "rows task 2") == [("process", 10, 40)]
    back = [*small(), began(100), started(90, 2), committed(90, plan=-5, run=-7, number=2)]
    assert by_worker(made(back).trace)["counts task 1"] > 0
    assert made(back).notes == []


def test_times_are_cut_to_whole_milliseconds():
    """A commit seems to begin before its last task is done: by less than a millisecond, so its timestep began later."""
    ends = task("rows", 0, 2, {"process": 100.5})
    trace = made([began(), started(0), ends, committed(0)]).trace
    assert spans(trace, "rows task 0") == [("process", 2, 102.5)]
    assert spans(trace, "driver")[-2:] == [("commit", 102.5, 106.5), ("release", 106.5, 107.5)]


def test_tasks_of_a_front_may_be_beside_each_other():
    one = task("rows", 0, 5, {"process": 30}, number=1)
    two = task("rows", 0, 20, {"process": 30}, number=2)
    three = task("rows", 0, 40, {"process": 30}, number=3)
    steps = [started(0, n) for n in (1, 2, 3)]
    ends = [committed(0, number=n) for n in (1, 2, 3)]
    mixed = [each for pair in zip((one, two, three), ends, strict=True) for each in pair]
    trace = made([began(), *steps, *mixed]).trace
    assert list(trace.names.workers)[2:] == ["rows task 0", "rows task 0 (2)"]
    assert spans(trace, "rows task 0") == [("process", 5, 35), ("process", 40, 70)]
    assert spans(trace, "rows task 0 (2)") == [("process", 20, 50)]


def test_an_attempt_that_failed():
    ms = {"process": 20}
    again = task("rows", 0, 60, ms, launch=55, finish=85, again=1)
    other = task("rows", 1, 20, ms, launch=15, finish=43)
    trace = made([began(), started(0), other, again, committed(0)]).trace
    assert spans(trace, "driver")[3:5] == [("failed work", 43, 55), ("waiting", 55, 85)]


def test_timesteps_that_came_to_nothing():
    """One fails; its driver ends; the next one runs it again, and dies in the following one, which is then replayed."""
    ms = {"process": 50}
    events = [
        began(0),
        started(10),
        TimestepFailed(timestep=1, at_ms=START + 40, error="E"),
        JobStopped(job="j", at_ms=START + 45, error="E"),
        began(100),
        started(110),
        task("rows", 0, 115, ms),
        committed(110),
        started(220, 2),
        task("rows", 0, 225, ms, number=2),
        OperatorFinished(timestep=2, operator="rows", at_ms=START + 280),
        began(500),
        started(510, 2),
        task("rows", 0, 515, ms, number=2),
        committed(510, number=2),
    ]
    log = JobLog()
    for event in events:
        log.see(event)
    log.close()
    assert log.failed == [(START + 10, START + 40), (START + 220, START + 280)]
    trace = job_trace(log).trace
    assert spans(trace, "driver")[:3] == [
        ("idle", 0, 10),
        ("failed work", 10, 40),
        ("idle", 40, 45),
    ]
    # Between drivers nothing is known.
    gaps = [(a, b) for kind, a, b in spans(trace, "driver") if kind == "unknown"]
    assert gaps == [(45, 100), (280, 500)]
    assert ("failed work", 220, 280) in spans(trace, "driver")
    assert spans(trace, "rows task 0") == [("process", 115, 165), ("process", 515, 565)]
    assert by_worker(trace)["rows task 0"] > 0


def test_a_log_whose_begin_was_deleted_and_whose_end_is_not_there_yet():
    events = [*small()[3:8], started(120, 2), task("rows", 0, 125, {"process": 5}, number=2)]
    trace = made(events).trace
    assert spans(trace, "rows task 0")[-1] == ("shuffle write", 40, 42)
    assert ("commit", 112, 116) in spans(trace, "driver")
    assert by_worker(trace)["counts task 1"] > 0.3
    half = made([began(), started(5), SinkPublished(timestep=0, sink="out", at_ms=START + 30)])
    assert spans(half.trace, "driver") == [("idle", 0, 5), ("scheduling", 5, 30)]


def slow_sink(backlog) -> list:
    """Timesteps of 20 ms and a sink that takes 100 for each: two may wait for it."""
    events = [began(backlog=backlog)]
    now = 0
    for number in range(1, 9):
        now = max(now, 100 * (number - 3) + 22)
        events += [
            started(now, number),
            task("rows", 0, now + 3, {"process": 10}, number=number),
            committed(now, run=13, number=number),
        ]
        now += 20
        events.append(published(20 + 100 * number, 100, number))
    return [*events, JobStopped(job="j", at_ms=START + 900)]


def test_a_slow_sink_holds_the_driver_up():
    free, held = (made(slow_sink(backlog)).trace for backlog in (None, 2))
    assert by_worker(free)["driver"] > 0.8
    # From its first timestep until the driver may begin the last one.
    assert by_worker(held)["publisher"] == pytest.approx((520 - 20) / 900)
    assert [row for row in messages(held) if row[:2] == ("publisher", "driver")][:2] == [
        ("publisher", "driver", "control message", 120, 122),
        ("publisher", "driver", "control message", 220, 222),
    ]
    assert not [row for row in messages(free) if row[:2] == ("publisher", "driver")]
    # What it is busy with is not handed to it: it takes the next when it is done.
    assert [row[1] for row in messages(held) if row[0] == "driver"].count("publisher") == 1
    for roomy in (3, 8):
        assert spans(made(slow_sink(roomy)).trace, "driver") == spans(free, "driver")


def test_findings_know_the_activities():
    from rechannel.profiling.verdict import cause_of

    causes = {
        "processing": ("read", "deserialise", "lookup", "process", "merge", "write", "other"),
        "communication": ("receive", "fetch", "send", "outbox", "shuffle write"),
        "scheduling": ("planning", "scheduling", "control message"),
        "driver program": ("commit", "release", "publish"),
    }
    for cause, kinds in causes.items():
        assert {cause_of(kind) for kind in kinds} == {cause}, cause


def test_the_publisher_is_no_straggler():
    """The driver waits for it, but most of the path is work of six tasks, one after the other."""
    events = [began(backlog=0)]
    for number in range(5):
        now = 110 * number
        tasks = [
            task("rows", i, now + 2 + 10 * i, {"process": 10}, number=number) for i in range(6)
        ]
        step = committed(now, run=60, number=number)
        events += [started(now, number), *tasks, step, published(now + 108, 42, number)]
    trace = made([*events, started(550, 5)]).trace
    workers = by_worker(trace)
    assert workers["publisher"] > 2.5 * workers["rows task 0"] > 0
    found = analysis(trace, "j", window=1.0, threshold=0).findings
    assert [each.cause for each in found][:2] == ["processing", "driver program"]


def test_empty_and_nearly_empty_logs():
    assert len(made([]).trace.activities) == 0
    assert spans(made([began(), JobStopped(job="j", at_ms=START + 9)]).trace, "driver") == [
        ("idle", 0, 9)
    ]
    alone = made([began(), started(0), committed(0), published(130, 5)]).trace
    assert by_worker(alone)["driver"] > 0.9


# Files -------------------------------------------------------------------------------------------------------


def write(directory, events, *, before=0, lines=None):
    """A state directory with telemetry."""
    place = directory / "telemetry"
    place.mkdir(parents=True, exist_ok=True)
    head = json.dumps({"format": 1, "file": "rechannel telemetry", "first": before})
    body = lines or [json.dumps(event_to_json(event)) for event in events]
    file = place / f"{before:020d}.jsonl"
    file.write_text("\n".join([head, *body, ""]))
    return directory


def test_what_is_taken_for_telemetry(tmp_path):
    state = write(tmp_path / "state", small()[:5])
    write(tmp_path / "state", small()[5:], before=5)
    telemetry = state / "telemetry"
    whole = analyse(state, window=0.15)
    assert whole.title == "j, Rechannel 9"
    assert whole.findings[0].cause == "straggler"
    assert whole.findings[0].text.startswith("counts task 1 is ")
    same = analyse(telemetry, window=0.15)
    assert by_worker(same.trace) == pytest.approx(by_worker(whole.trace))
    first, second = (read_job(job_files(telemetry / f"{n:020d}.jsonl")).log for n in (0, 5))
    assert (list(first.slots), len(first.steps)) == ([("rows", 0), ("rows", 1)], 0)
    assert (list(second.slots), len(second.tasks)) == ([("counts", 0), ("counts", 1)], 2)


def test_what_is_not(tmp_path):
    rolled = tmp_path / "eventlog_v2_app-1"
    rolled.mkdir()
    (rolled / "events_1_app-1").write_text("nonsense\n" * 30)
    assert job_files(rolled) is None
    with pytest.raises(TraceError, match="is not an event log"):
        analyse(rolled)
    row = {"worker": "w", "activity": "a", "start": 0, "end": 10}
    neutral = tmp_path / f"{7:020d}.jsonl"
    neutral.write_text(json.dumps(row) + "\n")
    assert job_files(neutral) is None
    assert list(analyse(neutral).trace.names.workers) == ["w"]
    assert job_files(tmp_path / "nothing") is None
    silent = tmp_path / "silent"
    silent.mkdir()
    (silent / "dataflow.json").write_text("{}")
    with pytest.raises(TraceError, match="has no telemetry: the job ran with"):
        analyse(silent)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("nonsense", "line 5 of .* is not an event"),
        ('{"event":"task_finished","timestep":1}', "line 5 of .* is not an event"),
        ('{"event":"job_stopped","job":"j","at_ms":-1}', "event 3 of .*: -1 is no time"),
        ('{"event":"timestep_committed","timestep":1,"at_ms":1,"duration_ms":"x"}', "event 3 of"),
        ('{"event":"timestep_committed","timestep":0.5,"at_ms":1,"duration_ms":1}', "event 3 of"),
    ],
)
def test_bad_lines_are_named_and_skipped_or_refused(tmp_path, bad, words):
    lines = [json.dumps(event_to_json(event)) for event in small()]
    state = write(tmp_path, [], lines=[*lines[:3], bad, *lines[3:]])
    found = analyse(state, window=0.15)
    assert len(found.notes) == 1
    assert found.findings[0].cause == "straggler"
    with pytest.raises(TraceError, match=words) as refused:
        analyse(state, strict=True)
    assert found.notes[0].removeprefix("skipped: ") in str(refused.value)
    many = write(tmp_path, [], lines=[*lines[:3], *[bad] * 9, *lines[3:]])
    assert analyse(many, window=0.15).notes[5:] == ["4 more lines were skipped"]


def test_half_a_last_line_is_no_fault(tmp_path):
    state = write(tmp_path, small())
    file = state / "telemetry" / f"{0:020d}.jsonl"
    file.write_bytes(file.read_bytes()[:-9])
    assert analyse(state, strict=True).notes == []
    file.write_bytes(b"nonsense\n")
    with pytest.raises(TraceError, match="does not begin with a telemetry header"):
        analyse(state)


def test_the_command(tmp_path, capsys):
    state = write(tmp_path, small())
    assert execute(["profile", str(state), "--window", "0.15", "--top", "99", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["title"] == "j, Rechannel 9"
    assert body["workers"][0]["worker"] == "counts task 1"
    assert sum(row["critical"] for row in body["activities"]) == pytest.approx(1)
    assert execute(["profile", str(state), "--window", "0.15"]) == 0
    assert "counts task 1 is " in capsys.readouterr().out


# Jobs that ran -----------------------------------------------------------------------------------------------


class Hour:
    """A clock that goes on only while the user's function has rows: a millisecond for each."""

    def __init__(self, patch):
        self.ms, self.fails = float(START), False
        clock = SimpleNamespace(
            time=lambda: self.ms / 1e3,
            perf_counter=lambda: self.ms / 1e3,
            process_time=lambda: 0.0,
        )
        patch.setattr("rechannel.kernels.measure.time", clock)
        patch.setattr("rechannel.engine.publishing.time", clock)

    def total(self, key, state, rows):
        if self.fails:
            raise RuntimeError("as it should")
        self.ms += len(rows["n"])
        return (state or 0) + sum(rows["n"])

    def job(self, directory, rows):
        stream = rc.read().memory(rows, name="flights")
        totals = stream.key_by("carrier").track(
            self.total, state="total BIGINT", name="totals per carrier", tasks=2
        )
        return Job("flights", [totals.write.memory("out")], state=directory).start(
            in_process=InProcess(), clock=lambda: self.ms
        )


def hot(rows, job):
    """Four fifths of the rows have one key."""
    names = ["UA" if n % 5 else "AA" for n in range(100)]
    rows.push(pa.record_batch({"carrier": names, "n": pa.array(range(100), pa.int64())}))
    job.process_all_available()


def test_a_job_with_a_hot_key(tmp_path, monkeypatch):
    hour, rows = Hour(monkeypatch), script("carrier STRING, n BIGINT")
    job = hour.job(tmp_path, rows)
    for _ in range(5):
        hot(rows, job)
    job.stop()
    found = analyse(tmp_path, window=0.1, strict=True)
    assert found.notes == []
    assert "totals per carrier" in found.trace.names.operators
    workers = by_worker(found.trace, window=10**8)
    (hottest, most), (colder, less) = sorted(workers.items(), key=lambda pair: -pair[1])[:2]
    # One task after the other, as it is in process: both are on the path, with what they did.
    assert (most, less) == pytest.approx((0.8, 0.2))
    assert {hottest, colder} == {"totals per carrier task 0", "totals per carrier task 1"}
    assert found.findings[0].cause == "straggler"
    assert found.findings[0].who == hottest
    assert found.findings[0].share == pytest.approx(0.8)


def test_a_job_that_fails_goes_on_and_is_changed(tmp_path, monkeypatch):
    hour, rows = Hour(monkeypatch), script("carrier STRING, n BIGINT")
    job = hour.job(tmp_path, rows)
    hot(rows, job)
    hour.fails = True
    with pytest.raises(rc.RechannelError):
        hot(rows, job)
    with pytest.raises(rc.RechannelError):
        job.stop()
    hour.fails = False
    hour.ms += 1000
    job = hour.job(tmp_path, rows)
    job.process_all_available()
    change = job.reconfigure(rc.rescale("totals per carrier", tasks=4))
    for _ in range(3):
        hot(rows, job)
    assert change.wait(60)
    job.stop()
    files = job_files(tmp_path)
    log = read_job(files, strict=True).log
    assert log.numbers.tolist() == [1, 2, 3, 4, 5]
    assert log.backlog == rc.Settings().publish_backlog
    assert len(log.drivers) == 2
    found = analyse(tmp_path, window=0.1, strict=True)
    slots = {name for name in found.trace.names.workers if name.startswith("totals")}
    assert slots == {f"totals per carrier task {i}" for i in range(4)}
    kinds = found.profile.by_activity()
    assert kinds["critical"].sum() == pytest.approx(1)
    assert kinds["kind"][0] == "unknown"
    assert dict(kinds.select("kind", "ns").iter_rows())["process"] == 500 * MS
