"""The spans of a timestep, exactly: names, parents, times, attributes, links."""

from __future__ import annotations

import pytest

from rechannel.exporting.error_texts import TEXT_BYTES, ErrorText
from rechannel.exporting.span import Link
from rechannel.exporting.timestep_spans import (
    OpenTimestep,
    committed_spans,
    failed_span,
    published_span,
)
from rechannel.telemetry.events import (
    SinkPublished,
    StateSize,
    TimestepCommitted,
    TimestepFailed,
    TimestepStarted,
)
from rechannel.telemetry.task_finished import Sent, TaskFinished

STARTED = TimestepStarted(timestep=7, now_ms=0, at_ms=1_000, configuration=3)
COMMITTED = TimestepCommitted(
    timestep=7,
    at_ms=1_100,
    duration_ms=100.0,
    phases={"plan": 10.0, "run": 70.0, "commit": 20.0, "release": 5.0},
    rows_in=6,
    rows_out=2,
    state={"users": StateSize(rows=2, bytes=90)},
)
ROOT = ("timestep", 7)
RUN = (*ROOT, "run")


def task(operator, number, start, end, **more):
    return TaskFinished(
        timestep=7,
        operator=operator,
        task=number,
        attempt="a",
        host="h1",
        started_ms=start,
        finished_ms=end,
        **more,
    )


def opened(*tasks):
    open_ = OpenTimestep(started=STARTED)
    for one in tasks:
        open_.see(one)
    return open_


SENT = Sent(operator="users", input=0, offered=3, rows=2, keys=2, bytes=40)
TASKS = (
    task("users", 0, 1_050, 1_075, rows_in=4, ms={"lookup": 2.0}, counts={"rows_late": 1}),
    task("clicks", 0, 1_012, 1_030, rows_in=3, rows_out=3, sent=(SENT,), ms={"send": 4.0}),
    task("clicks", 1, 1_011, 1_040, rows_in=3, rows_out=3, sent=(SENT,), ms={"send": 6.5}),
)


def test_a_committed_timestep_is_a_tree_of_spans():
    spans = list(committed_spans("shop", opened(*TASKS), COMMITTED, 0))
    assert [(s.name, s.parent, s.start_ms, s.end_ms) for s in spans] == [
        ("timestep", None, 1_000, 1_100),
        ("plan", ROOT, 1_000, 1_010),
        ("run", ROOT, 1_010, 1_080),
        ("operator clicks", RUN, 1_011, 1_040),
        ("operator users", RUN, 1_050, 1_075),
        ("commit", ROOT, 1_080, 1_100),
        ("release", ROOT, 1_100, 1_105),
    ]
    root, _, _, clicks, users, *_ = spans
    assert root.attributes == {
        "rechannel.job.name": "shop",
        "rechannel.timestep.number": 7,
        "rechannel.configuration.version": 3,
        "rechannel.rows.in": 6,
        "rechannel.rows.out": 2,
    }
    assert clicks.attributes == {
        "rechannel.operator.name": "clicks",
        "rechannel.operator.tasks": 2,
        "rechannel.operator.rows.in": 6,
        "rechannel.operator.rows.out": 6,
        "rechannel.operator.rows.late": 0,
        "rechannel.operator.rows.dead": 0,
        "rechannel.operator.received": 0,
        "rechannel.operator.sent": 0,
        "rechannel.operator.task.time.send": 0.0105,
    }
    assert users.attributes["rechannel.operator.rows.late"] == 1
    assert users.attributes["rechannel.operator.state.rows"] == 2
    assert users.attributes["rechannel.operator.state.size"] == 90
    assert clicks.links == ()
    figures = {"rechannel.exchange.rows": 4, "rechannel.exchange.size": 80}
    assert users.links == (Link(to=(*RUN, "clicks"), attributes=figures),)


def test_the_longest_tasks_have_spans():
    spans = committed_spans("shop", opened(*TASKS), COMMITTED, 1)
    tasks = [span for span in spans if span.name == "task"]
    assert [(s.key, s.parent, s.start_ms, s.end_ms) for s in tasks] == [
        ((*RUN, "clicks", 1), (*RUN, "clicks"), 1_011, 1_040),
        ((*RUN, "users", 0), (*RUN, "users"), 1_050, 1_075),
    ]
    assert tasks[0].attributes == {
        "rechannel.operator.name": "clicks",
        "rechannel.task.number": 1,
        "rechannel.task.host": "h1",
        "rechannel.task.rows.in": 3,
        "rechannel.task.time.send": 0.0065,
    }


def test_tasks_of_a_wrong_clock_stay_in_the_phase():
    early, late = task("clicks", 0, 10, 20), task("users", 0, 9_000, 9_100)
    spans = {s.name: s for s in committed_spans("shop", opened(early, late), COMMITTED, 0)}
    assert (spans["operator clicks"].start_ms, spans["operator clicks"].end_ms) == (1_010, 1_010)
    assert (spans["operator users"].start_ms, spans["operator users"].end_ms) == (1_080, 1_080)


def test_an_attempt_that_fails_is_one_span_with_its_error():
    failed = TimestepFailed(timestep=7, at_ms=1_020, error="OSError", message="full", again_ms=100)
    span = failed_span("shop", opened(), failed, ErrorText.LINE)
    assert (span.name, span.parent, span.start_ms, span.end_ms) == ("timestep", None, 1_000, 1_020)
    assert span.error == "OSError: full"
    assert span.attributes == {
        "rechannel.job.name": "shop",
        "rechannel.timestep.number": 7,
        "rechannel.configuration.version": 3,
        "error.type": "OSError",
        "rechannel.timestep.retried": True,
    }


@pytest.mark.parametrize(
    ("errors", "told"),
    [
        ("class", "ValueError"),
        ("line", "ValueError: not a price: operator prices"),
        ("text", "ValueError: not a price: operator prices\n  row: user-17, 4 Main Street"),
    ],
)
def test_a_span_has_of_an_error_what_was_asked_for(errors, told):
    said = "not a price: operator prices\n  row: user-17, 4 Main Street"
    failed = TimestepFailed(timestep=7, at_ms=1_020, error="ValueError", message=said)
    assert failed_span("shop", opened(), failed, ErrorText(errors)).error == told


@pytest.mark.parametrize("errors", list(ErrorText))
@pytest.mark.parametrize("said", ["x" * 10_000_000, "é\n" * 1_000_000, "\U0001f600" * 20_000])
def test_no_text_of_an_error_is_long(errors, said):
    failed = TimestepFailed(timestep=7, at_ms=1_020, error="ValueError", message=said)
    told = failed_span("shop", opened(), failed, errors).error
    assert len(told.encode()) <= len("ValueError: ") + TEXT_BYTES


def test_a_sink_publishes_in_the_trace_of_its_timestep():
    event = SinkPublished(timestep=7, sink="out", at_ms=1_200, duration_ms=30.0)
    span = published_span("shop", event)
    assert (span.name, span.parent) == ("publish out", ROOT)
    assert (span.start_ms, span.end_ms) == (1_170, 1_200)
    assert span.attributes == {
        "rechannel.job.name": "shop",
        "rechannel.timestep.number": 7,
        "rechannel.sink.name": "out",
        "rechannel.publish.again": False,
    }
