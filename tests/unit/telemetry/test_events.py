import dataclasses
import json
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.sources.backlog import Backlog
from rechannel.telemetry.events import (
    EVENTS,
    DecisionMade,
    JobStarted,
    JobStopped,
    Note,
    OperatorFinished,
    SinkPublished,
    StateSize,
    TimestepCommitted,
    TimestepFailed,
    TimestepStarted,
    event_from_json,
    event_to_json,
)
from rechannel.telemetry.task_finished import (
    JudgedRows,
    Kept,
    SegmentWritten,
    Sent,
    SparkMetrics,
    SparkTaskId,
    TaskFinished,
)
from rechannel.telemetry.tasks_finished import TasksFinished

names = st.text(min_size=1, max_size=8)
naturals = st.integers(0, 2**63)
times = st.floats(0, 1e13, allow_nan=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
JSON_MAPPINGS = {
    "offsets": st.dictionaries(names, json_values, max_size=3),
    "data": st.dictionaries(names, json_values, max_size=3),
    "tasks": st.dictionaries(names, naturals, max_size=3),
    "counts": st.dictionaries(names, naturals, max_size=3),
    "failed": st.dictionaries(names, naturals, max_size=3),
    "watermarks": st.dictionaries(names, st.integers(-(2**53), 2**53), max_size=3),
    "versions": st.dictionaries(names, names, max_size=3),
    "ms": st.dictionaries(names, times, max_size=3),
    "phases": st.dictionaries(names, times, max_size=3),
}


def strategy_for(cls):
    """Any value of an event or of a part of one, going by the annotations of its fields."""
    fields = dataclasses.fields(cls)
    return st.builds(
        cls,
        **{f.name: JSON_MAPPINGS[f.name] for f in fields if f.name in JSON_MAPPINGS},
        **{f.name: PLAIN[f.type] for f in fields if f.name not in JSON_MAPPINGS},
    )


PLAIN = {
    "Annotated[bytes, _AS_TEXT]": st.binary(max_size=9),
    "Annotated[bytes | None, _AS_TEXT]": st.none() | st.binary(max_size=9),
    "int": naturals,
    "float": times,
    "str": names,
    "bool": st.booleans(),
    "int | None": st.none() | naturals,
    "float | None": st.none() | times,
    "str | None": st.none() | names,
}
PLAIN |= {
    "tuple[SegmentWritten, ...]": st.lists(strategy_for(SegmentWritten), max_size=2).map(tuple),
    "tuple[Sent, ...]": st.lists(strategy_for(Sent), max_size=2).map(tuple),
    "tuple[JudgedRows, ...]": st.lists(strategy_for(JudgedRows), max_size=2).map(tuple),
    "tuple[Kept, ...]": st.lists(strategy_for(Kept), max_size=2).map(tuple),
    "SparkTaskId | None": st.none() | strategy_for(SparkTaskId),
    "SparkMetrics | None": st.none() | strategy_for(SparkMetrics),
    "Mapping[str, StateSize]": st.dictionaries(names, strategy_for(StateSize), max_size=2),
}
PLAIN["Mapping[str, Backlog]"] = st.dictionaries(
    names,
    st.builds(Backlog, rows=naturals)
    | st.builds(Backlog, bytes=naturals, taken_bytes=naturals, files=st.none() | naturals),
    max_size=2,
)
events = st.one_of([strategy_for(cls) for cls in EVENTS])


@given(events)
def test_an_event_survives_its_json(event):
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event


@given(events, st.dictionaries(names.map("new_".__add__), json_values))
def test_fields_of_a_later_version_are_ignored(event, more):
    assert event_from_json({**more, **event_to_json(event)}) == event


def test_events_of_a_later_version_are_recognised_as_such():
    assert event_from_json({"event": "bin_moved", "bin": 7}) is None


def test_kinds_are_distinct():
    assert len({event.KIND for event in EVENTS}) == len(EVENTS)


def test_what_has_its_default_is_not_written():
    stopped = JobStopped(job="flights", at_ms=5)
    assert event_to_json(stopped) == {"event": "job_stopped", "job": "flights", "at_ms": 5}


TASK = TaskFinished(
    timestep=4,
    operator="delays",
    task=1,
    attempt="17",
    host="worker-1",
    pid=99,
    executor="2",
    started_ms=1000.5,
    finished_ms=1030.5,
    cpu_ms=21.25,
    ms={"wait": 10.0, "process": 12.5},
    rows_in=100,
    rows_out=7,
    bytes_in=4096,
    bytes_out=512,
    keys=7,
    keys_found=3,
    runs=2,
    rows_merged=40,
    counts={"timers": 1},
    bins="eJw=",
    segments=(SegmentWritten(key="segments/delays/a.arrow", level=0, rows=7, bytes=900),),
    sent=(Sent(operator="top", input=0, offered=7, rows=5, keys=5, bytes=500),),
    kept=(Kept(node="delays", rows=7, bytes=12),),
    spark_task=SparkTaskId(stage=8, task=345),
    spark=SparkMetrics(
        stage=8, partition=1, executor="2", host="10.0.0.7", launch_ms=990, finish_ms=1040,
        run_ms=45, cpu_ms=3.5, gc_ms=1, deserialise_ms=2, result_serialise_ms=1,
        shuffle_wait_ms=4, shuffle_write_ms=0.75, shuffle_read_bytes=4100, shuffle_write_bytes=520,
    ),
)  # fmt: skip

# What files of format 1 hold. A change here is a new format, unless it only adds.
GOLDEN = [
    (
        JobStarted(
            job="flights", at_ms=1, engine="spark", timestep=3, tasks={"delays": 2},
            versions={"spark": "4.2.0"},
        ),
        '{"event":"job_started","job":"flights","at_ms":1,"engine":"spark","timestep":3,'
        '"tasks":{"delays":2},"versions":{"spark":"4.2.0"}}',
    ),
    (
        JobStopped(job="flights", at_ms=9, error="StorageError"),
        '{"event":"job_stopped","job":"flights","at_ms":9,"error":"StorageError"}',
    ),
    (
        TimestepStarted(
            timestep=4, now_ms=900, at_ms=950, offsets={"files": {"start": 0, "end": 2}},
            rows_expected=200, configuration=1,
        ),
        '{"event":"timestep_started","timestep":4,"now_ms":900,"at_ms":950,'
        '"offsets":{"files":{"start":0,"end":2}},"rows_expected":200,"configuration":1}',
    ),
    (
        TASK,
        '{"event":"task_finished","timestep":4,"operator":"delays","task":1,"attempt":"17",'
        '"host":"worker-1","pid":99,"executor":"2","started_ms":1000.5,"finished_ms":1030.5,'
        '"cpu_ms":21.25,"ms":{"wait":10.0,"process":12.5},"rows_in":100,"rows_out":7,'
        '"bytes_in":4096,"bytes_out":512,"keys":7,"keys_found":3,"runs":2,"rows_merged":40,'
        '"counts":{"timers":1},"bins":"eJw=",'
        '"segments":[{"key":"segments/delays/a.arrow","level":0,"rows":7,"bytes":900}],'
        '"sent":[{"operator":"top","input":0,"offered":7,"rows":5,"keys":5,"bytes":500}],'
        '"kept":[{"node":"delays","rows":7,"bytes":12}],"spark_task":{"stage":8,"task":345},'
        '"spark":{"stage":8,"partition":1,"executor":"2","host":"10.0.0.7","launch_ms":990,'
        '"finish_ms":1040,"run_ms":45,"cpu_ms":3.5,"gc_ms":1,"deserialise_ms":2,'
        '"result_serialise_ms":1,"shuffle_wait_ms":4,"shuffle_write_ms":0.75,'
        '"shuffle_read_bytes":4100,"shuffle_write_bytes":520}}',
    ),
    (
        TasksFinished(timestep=4, operator="delays", number=900, figures=b"Arrow", spark=b"more"),
        '{"event":"tasks_finished","timestep":4,"operator":"delays","number":900,"figures":"QXJyb3c=","spark":"bW9yZQ=="}',
    ),
    (
        OperatorFinished(timestep=4, operator="delays", at_ms=1041),
        '{"event":"operator_finished","timestep":4,"operator":"delays","at_ms":1041}',
    ),
    (
        TimestepCommitted(
            timestep=4, at_ms=1050, duration_ms=100.5, phases={"plan": 10.0, "run": 85.0},
            rows_in=200, rows_out=14, state={"delays": StateSize(rows=50, bytes=4000)},
        ),
        '{"event":"timestep_committed","timestep":4,"at_ms":1050,"duration_ms":100.5,'
        '"phases":{"plan":10.0,"run":85.0},"rows_in":200,"rows_out":14,'
        '"state":{"delays":{"rows":50,"bytes":4000}}}',
    ),
    (
        TimestepFailed(
            timestep=5, at_ms=1060, error="UserFunctionError", message="boom", operator="delays"
        ),
        '{"event":"timestep_failed","timestep":5,"at_ms":1060,"error":"UserFunctionError",'
        '"message":"boom","operator":"delays"}',
    ),
    (
        SinkPublished(
            timestep=4, sink="out", at_ms=1055, duration_ms=4.5, rows=14, bytes=80, again=True
        ),
        '{"event":"sink_published","timestep":4,"sink":"out","at_ms":1055,"duration_ms":4.5,'
        '"rows":14,"bytes":80,"again":true}',
    ),
    (
        DecisionMade(
            at_ms=9, controller="autoscale", timestep=7, outcome="changed", why="more", became="r1: done",
            data={"parallelism": {"counts": 4}},
        ),
        '{"event":"decision_made","at_ms":9,"controller":"autoscale","timestep":7,"outcome":"changed",'
        '"why":"more","became":"r1: done","data":{"parallelism":{"counts":4}}}',
    ),
    (
        Note(at_ms=2, topic="telemetry", text="3 lost", timestep=4, cause="r1", data={"lost": 3}),
        '{"event":"note","at_ms":2,"topic":"telemetry","text":"3 lost","timestep":4,"cause":"r1",'
        '"data":{"lost":3}}',
    ),
]  # fmt: skip


@pytest.mark.parametrize(("event", "line"), GOLDEN, ids=[event.KIND for event, _ in GOLDEN])
def test_format_1(event, line):
    assert json.dumps(event_to_json(event), separators=(",", ":")) == line
    assert event_from_json(json.loads(line)) == event


def test_format_1_is_shown_for_every_event():
    assert {type(event) for event, _ in GOLDEN} == set(EVENTS)


def test_busy_is_what_was_not_waiting():
    assert TASK.busy_ms == 20.0


@pytest.mark.parametrize(
    ("cls", "values"),
    [
        (TimestepStarted, {"timestep": -1, "now_ms": 0, "at_ms": 0}),
        (TimestepStarted, {"timestep": 0, "now_ms": 0, "at_ms": 0, "rows_expected": -5}),
        (OperatorFinished, {"timestep": -1, "operator": "a", "at_ms": 0}),
        (StateSize, {"rows": 0, "bytes": -1}),
        (TimestepCommitted, {"timestep": 0, "at_ms": 0, "duration_ms": 1.0, "rows_in": -1}),
        (TimestepFailed, {"timestep": -1, "at_ms": 0, "error": "E"}),
        (SinkPublished, {"timestep": 0, "sink": "a", "at_ms": 0, "rows": -1}),
        (Note, {"at_ms": 0, "topic": "a", "text": "b", "timestep": -1}),
    ],
)
def test_an_impossible_event_is_refused(cls, values):
    with pytest.raises(ValueError, match=f"{cls.__name__}.* cannot be negative: -"):
        cls(**values)


@pytest.mark.parametrize("name", ["task", "rows_in", "bytes_out", "rows_merged", "timestep"])
def test_an_impossible_task_is_refused(name):
    with pytest.raises(ValueError, match=f"TaskFinished.{name} cannot be negative: -1"):
        dataclasses.replace(TASK, **{name: -1})


def test_a_clock_that_was_set_back_is_no_reason_to_fail():
    assert TimestepCommitted(timestep=0, at_ms=0, duration_ms=-3.5).duration_ms == -3.5
    assert dataclasses.replace(TASK, started_ms=50.0, finished_ms=20.0).busy_ms == 0.0


def test_what_an_event_was_made_of_may_change_afterwards():
    offsets = {"files": 1}
    event = TimestepStarted(timestep=0, now_ms=0, at_ms=0, offsets=offsets)
    offsets["files"] = 2
    assert event.offsets == {"files": 1}
    assert isinstance(event.offsets, MappingProxyType)


@pytest.mark.parametrize(
    "data", [{}, [], {"event": "note"}, {"event": "timestep_committed", "state": 3}]
)
def test_what_is_no_event_is_refused(data):
    with pytest.raises((AttributeError, KeyError, TypeError, ValueError)):
        event_from_json(data)
