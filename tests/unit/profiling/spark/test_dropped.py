"""Logs of which Spark dropped events, or that lack their beginning."""

import json

import pytest

from rechannel.profiling.model.trace import MS
from rechannel.profiling.reading import open_file
from rechannel.profiling.spark.driver import STARTING
from rechannel.profiling.spark.log import SparkLog
from rechannel.profiling.spark.trace import spark_trace
from tests.unit.profiling.logs import START, info, line, small
from tests.unit.profiling.spark.test_facts import job, job_end
from tests.unit.profiling.spark.test_log import spans
from tests.unit.profiling.spark.test_plans import node, sql

HOUR = 3_600_000


def timed(*, without, completed=(520, 710), end=HOUR):
    """The small application, which ends much later, with the times of its stages, and without some events."""
    lines = []
    for each in small()[:-1]:
        told = json.loads(each)
        if (stage := told.get("Stage Info")) is not None:
            number = stage["Stage ID"]
            stage["Submission Time"] = START + (105, 515)[number]
            if told["Event"].endswith("StageCompleted") and completed[number]:
                stage["Completion Time"] = START + completed[number]
        text = json.dumps(told, separators=(",", ":")).encode() + b"\n"
        if not all(word in text for word in without):
            lines.append(text)
    assert len(lines) == len(small()) - 2
    return [*lines, *([line("ApplicationEnd", Timestamp=START + end)] if end else [])]


def lengths(lines):
    tasks = SparkLog().read(lines).finish()
    rows = tasks.meeting(*tasks.span)
    return {
        int(row["number"]): (int(row["finish"] - row["launch"]) // MS, bool(row["good"]))
        for row in rows
    }


def test_of_very_many_tasks_without_an_end_the_newest_are_held(monkeypatch):
    monkeypatch.setattr("rechannel.profiling.spark.attempts.MOST_RUNNING", 3)
    begun = [
        line("TaskStart", **{"Stage ID": 0, "Task Info": info(number, "1", 600)})
        for number in range(10, 15)
    ]
    log = SparkLog().read([*small()[:-1], *begun, small()[-1]])
    tasks = log.finish()
    assert {12, 13, 14} == set(tasks.meeting(*tasks.span)["number"].tolist()) - {0, 1, 2}
    assert log.open_tasks == 5


FIRST_TASK = (b"TaskEnd", b'"Task ID":0')


def test_a_task_without_an_end_is_over_with_its_stage():
    lines = timed(without=FIRST_TASK)
    assert lengths(lines)[0] == (520 - 110, True)
    # Nothing is known of its stage.
    assert lengths(timed(without=FIRST_TASK, completed=(0, 710)))[0] == (HOUR - 110, True)


@pytest.mark.parametrize(("at", "found"), [(300, (190, False)), (600, (410, True))])
def test_a_task_without_an_end_is_lost_with_its_executor_unless_its_stage_was_over(at, found):
    gone = {"Timestamp": START + at, "Executor ID": "1", "Removed Reason": "worker lost"}
    lines = timed(without=FIRST_TASK)
    assert lengths([*lines[:-1], line("ExecutorRemoved", **gone), lines[-1]])[0] == found


def test_a_job_without_an_end_is_over_with_its_last_stage():
    lines = timed(without=(b"JobEnd",))
    log = SparkLog().read(lines)
    did = spans(spark_trace(log).whole(), "driver")
    assert did[-2:] == [("scheduling", 700, 710), ("driver program", 710, HOUR)]
    # As long as a stage runs, or the application, it may go on.
    for cut in (timed(without=(b"JobEnd",), completed=(520, 0)), lines[:-1]):
        assert SparkLog().read(cut).facts().jobs[0].end == 0


def later(each, by, first_job):
    """An event some time later, with another number of its job."""
    told = json.loads(each)
    for name in ("Timestamp", "Submission Time", "Completion Time"):
        if name in told and told["Event"] != "SparkListenerApplicationStart":
            told[name] += by
    for name in ("Launch Time", "Finish Time"):
        if told.get("Task Info", {}).get(name):
            told["Task Info"][name] += by
    if "Job ID" in told:
        told["Job ID"] += first_job
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def test_a_log_that_lacks_its_first_jobs_begins_with_those_that_it_has(tmp_path):
    (tmp_path / "events_4_app-1.compact").write_bytes(
        b"".join(later(each, HOUR, 57) for each in small())
    )
    opened = open_file(tmp_path)
    assert opened.notes == ["the log begins with job 57: what was before is not known"]
    assert opened.source.span == ((START + HOUR + 100) * MS, (START + HOUR + 800) * MS)
    kinds = [kind for kind, *_ in spans(opened.source.whole(), "driver")]
    assert kinds[0] == "scheduling"
    assert STARTING not in kinds
    # One that has them was starting up for an hour.
    (tmp_path / "events_4_app-1.compact").write_bytes(
        b"".join(later(each, HOUR, 0) for each in small())
    )
    opened = open_file(tmp_path)
    assert (opened.notes, opened.source.span[0]) == ([], START * MS)
    assert spans(opened.source.whole(), "driver")[0] == (STARTING, 0, HOUR + 5)


def query(number, at, root=None):
    plan = node("Scan", counts=[number])
    told = {"executionId": number, "time": START + at, "sparkPlanInfo": plan}
    return sql("SQLExecutionStart", **told, **({} if root is None else {"rootExecutionId": root}))


def of_sql(number, at):
    return job(number, at, {"spark.sql.execution.id": str(number)})


def executions(*lines):
    """When executions ended, ms after the start of a log that ends after an hour."""
    log = SparkLog().read([*small()[:-1], *lines, line("ApplicationEnd", Timestamp=START + HOUR)])
    return {n: each.end and each.end - START for n, each in log.facts().executions.items()}


def test_an_execution_without_an_end_is_over_with_its_last_job_if_another_one_began():
    first = [query(7, 730), of_sql(7, 740), job_end(7, 750)]
    assert executions(*first) == {7: 0}
    assert executions(*first, query(8, 800)) == {7: 750, 8: 0}
    # Without jobs it has only begun; with one that runs it goes on.
    assert executions(query(7, 730), query(8, 800)) == {7: 730, 8: 0}
    assert executions(*first[:2], query(8, 800)) == {7: 0, 8: 0}
    # A part of it does not say that it is over.
    assert executions(*first, query(8, 800, root=7)) == {7: 0, 8: 0}
    # Its jobs may be those of its parts.
    parts = [query(7, 730), query(8, 740, root=7), of_sql(8, 750), job_end(8, 760), query(9, 770)]
    assert executions(*parts) == {7: 760, 8: 760, 9: 0}


def test_an_end_that_the_log_has_counts():
    ended = sql("SQLExecutionEnd", executionId=7, time=START + 790)
    lines = [query(7, 730), of_sql(7, 740), job_end(7, 750), ended, query(8, 800)]
    assert executions(*lines) == {7: 790, 8: 0}
