"""Texts of logs are kept in part."""

from rechannel.profiling.spark.texts import KEPT, first_line, shortened
from tests.unit.profiling.logs import START, line, stage_info
from tests.unit.profiling.spark.test_facts import facts, job
from tests.unit.profiling.spark.test_plans import sql

LONG = "x" * 50_000


def test_short_texts_are_as_they_are():
    assert shortened("abc", 4) == "abc"
    assert shortened("abcdefgh", 6) == "ab ..."
    assert first_line("\n bad\n at x") == "bad"


def test_long_texts_of_a_log_take_no_room():
    failed = {**stage_info(7, name=LONG), "Failure Reason": LONG}
    properties = {"spark.job.description": LONG, "callSite.short": LONG, "spark.jobGroup.id": LONG}
    found = facts(
        line("ApplicationStart", **{"App Name": LONG, "Timestamp": START}),
        job(6, 20, properties),
        line("StageCompleted", **{"Stage Info": failed}),
        sql("SQLExecutionStart", executionId=1, time=START, description=LONG),
        sql("SQLExecutionEnd", executionId=1, time=START + 1, errorMessage=LONG),
        line("ExecutorRemoved", **{"Timestamp": START, "Executor ID": "1", "Removed Reason": LONG}),
    )
    one, stage, run = found.jobs[6], found.stages[7, 0], found.executions[1]
    kept = [
        *(found.name, one.description, one.site, one.group, stage.name, stage.failure),
        *(run.description, run.failure, found.executors["1"].reason),
    ]
    assert [len(text) for text in kept] == [KEPT] * len(kept)
