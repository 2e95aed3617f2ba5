from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from rechannel.cli.jobs import events as events_module
from rechannel.cli.jobs.describe import describe
from rechannel.kernels.tasks.report import TaskCosts, TaskReport
from rechannel.kernels.tasks.report_table import ReportTable
from rechannel.kernels.tasks.unit_report import ReportList
from rechannel.telemetry.events import (
    EVENTS,
    DecisionMade,
    JobStarted,
    JobStopped,
    Note,
    OperatorFinished,
    SinkPublished,
    TimestepCommitted,
    TimestepFailed,
    TimestepStarted,
)
from rechannel.telemetry.task_finished import TaskFinished
from rechannel.telemetry.tasks_finished import TasksFinished

MANY = ReportTable.of(
    ReportList(
        tuple(
            TaskReport(
                operator="o",
                timestep=3,
                task=task,
                attempt="a",
                costs=TaskCosts(
                    host="h",
                    pid=1,
                    started_ms=-10.0 + task * 2,
                    finished_ms=0.0,
                    cpu_ms=1.0,
                    ms={"wait": 4.0 + task * 2},
                    counts={"rows_in": 10 + task * 10},
                ),
            )
            for task in range(2)
        )
    )
)

EXAMPLES = [
    (JobStarted(job="j", at_ms=0, engine="spark"), "job 'j' started (spark)"),
    (JobStopped(job="j", at_ms=0), "job 'j' stopped"),
    (JobStopped(job="j", at_ms=0, error="disk full"), "job 'j' failed: disk full"),
    (TimestepStarted(timestep=3, now_ms=0, at_ms=0), "timestep 3 started"),
    (OperatorFinished(timestep=3, operator="o", at_ms=0), "timestep 3: operator 'o' is done"),
    (
        TimestepCommitted(
            timestep=3, at_ms=0, duration_ms=1234, rows_in=5000, rows_out=7, phases={"run": 1.6}
        ),
        "timestep 3 committed in 1,234 ms: 5,000 rows in, 7 out (run 2 ms)",
    ),
    (
        TimestepFailed(timestep=3, at_ms=0, error="E", message="why\n  File ..."),
        "timestep 3 failed: E: why",
    ),
    (SinkPublished(timestep=3, sink="s", at_ms=0), "sink 's' published timestep 3"),
    (
        SinkPublished(timestep=3, sink="s", at_ms=0, rows=2, again=True),
        "sink 's' published 2 rows of timestep 3, again",
    ),
    (Note(at_ms=0, topic="t", text="x"), "t: x"),
    (
        DecisionMade(at_ms=0, controller="c", timestep=3, outcome="enough", why="all is well"),
        "controller c: enough: all is well",
    ),
    (
        DecisionMade(
            at_ms=0, controller="c", timestep=3, outcome="changed", why="more", became="r1 is done"
        ),
        "controller c: changed: more: r1 is done",
    ),
    (
        TaskFinished(
            timestep=3,
            operator="o",
            task=1,
            attempt="a",
            host="h",
            started_ms=-10,
            finished_ms=0,
            ms={"wait": 4, "write": 6},
            rows_in=1000,
            bytes_in=2048,
            rows_out=2,
        ),
        "timestep 3: 'o' task 1 on h: 1,000 rows (2.0 KiB) in, 2 (0 B) out,"
        " busy 6 ms (wait 4 ms, write 6 ms)",
    ),
    (
        TasksFinished(timestep=3, operator="o", number=2, figures=MANY.tasks_done),
        "timestep 3: 'o', 2 tasks: 30 rows (0 B) in, 30 (0 B) out, busy 6 ms at most, 8 ms together"
        " (wait 10 ms)",
    ),
]


@pytest.mark.parametrize(("event", "text"), EXAMPLES)
def test_an_event_in_words(event, text):
    assert describe(event) == f"1970-01-01T00:00:00.000Z  {text}"


def test_every_kind_has_words():
    assert {type(event) for event, _ in EXAMPLES} == set(EVENTS)


def test_events_are_those_of_the_file(stopped, rechannel):
    lines = rechannel("events", stopped.directory, "--json").lines
    written = [
        json.loads(line)
        for path in stopped.files("telemetry")
        for line in path.read_text().splitlines()[1:]
    ]
    assert [json.loads(line) for line in lines] == written
    assert len(rechannel("events", stopped.directory).lines) == len(written)


def test_kinds_and_the_last_ones(stopped, rechannel):
    def chosen(*options):
        lines = rechannel("events", stopped.directory, "--json", *options).lines
        return [(e["event"], e.get("timestep")) for e in map(json.loads, lines)]

    committed = [("timestep_committed", timestep) for timestep in (1, 2, 3)]
    assert chosen("--kind", "timestep_committed") == committed
    assert chosen("--kind", "timestep_committed", "--last", 2) == committed[1:]
    assert chosen("--kind", "timestep_committed", "--kind", "job_stopped", "--last", 2) == [
        committed[2],
        ("job_stopped", None),
    ]
    assert chosen("--last", 0) == []


def test_an_unknown_kind_is_refused(stopped, rechannel):
    reaction = rechannel("events", stopped.directory, "--kind", "birthday")
    assert reaction.code == 2
    assert "no event of kind 'birthday'; there are: decision_made," in reaction.err


def test_following_goes_on_until_ctrl_c(clicks, rechannel, monkeypatch):
    clicks.push([("ann", 1)])
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) > 3:
            raise KeyboardInterrupt
        clicks.push([("ann", len(pauses))])
        clicks.running._hub._log.flush()

    clicks.running._hub._log.flush()
    # The module alone gets this clock: other threads of the process go on sleeping.
    monkeypatch.setattr(events_module, "time", SimpleNamespace(sleep=sleep))
    reaction = rechannel(
        "events",
        clicks.directory,
        "--follow",
        "--last",
        0,
        "--kind",
        "timestep_committed",
        "--json",
    )
    assert reaction.code == 0
    assert [json.loads(line)["timestep"] for line in reaction.lines] == [2, 3, 4]
