"""Which errors pass: by class where they are ours, by the words of Spark where they are not."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from rechannel.engine.failures.blame import Blame, blame_of, is_severed
from rechannel.engine.spark.failures import translate, translate_of_sink
from rechannel.engine.spark.runner import SparkRunner
from rechannel.errors import (
    ClusterError,
    DamagedStateError,
    DataflowError,
    FencedError,
    MissingFileError,
    NotPermittedError,
    SchemaDriftError,
    SessionError,
    SourceError,
    StorageError,
    TimestepError,
    UserFunctionError,
    one_sentence,
)

ABORTED = "An error occurred while calling o89.executeCollect.\n: org.apache.spark.SparkException: "
STACK = "\n\nDriver stacktrace:\n\tat org.apache.spark.scheduler.DAGScheduler.x(D.scala:3)\n"
LOST = (
    f"{ABORTED}Job aborted due to stage failure: Task 1 in stage 7.0 failed 4 times, most recent"
    " failure: Lost task 1.3 in stage 7.0 (TID 31) (127.0.0.2 executor 4): ExecutorLostFailure"
    f" (executor 4 exited caused by one of the running tasks) Reason: worker lost{STACK}"
)
INDETERMINATE = (
    f"{ABORTED}Job aborted due to stage failure: A shuffle map stage with indeterminate output was"
    f" failed and retried. However, Spark cannot rollback the ResultStage 14{STACK}"
)
FETCH = (
    f"{ABORTED}Job aborted due to stage failure: ShuffleMapStage 20 has failed the maximum allowable"
    f" number of times: 4. Most recent failure reason:\norg.apache.spark.shuffle.FetchFailed{STACK}"
)
AWAY = f"{ABORTED}java.net.ConnectException: Call From a to b:8020 failed{STACK}"
OVER = f"{ABORTED}Job 5 cancelled because SparkContext was shut down. ExecutorLostFailure{STACK}"
CANCELLED = f"{ABORTED}Job 5 cancelled{STACK}"
PARSE = "[PARSE_SYNTAX_ERROR] Syntax error at or near 'FRM'"


@pytest.mark.parametrize(
    ("error", "blame"),
    [
        (UserFunctionError("no luck"), Blame.USER),
        (UserFunctionError("FetchFailed is what my function said"), Blame.USER),
        (TimestepError("?"), Blame.USER),
        (DataflowError("?"), Blame.USER),
        (FencedError("?"), Blame.USER),
        (SchemaDriftError("?"), Blame.USER),
        (MissingFileError("?"), Blame.DAMAGED),
        (StorageError("?"), Blame.STORE),
        (NotPermittedError("?"), Blame.USER),
        (ClusterError("?"), Blame.CLUSTER),
        (RuntimeError(LOST), Blame.CLUSTER),
        (RuntimeError(INDETERMINATE), Blame.CLUSTER),
        (RuntimeError(FETCH), Blame.CLUSTER),
        (RuntimeError(AWAY), Blame.STORE),
        (RuntimeError(OVER), Blame.USER),
        (RuntimeError(CANCELLED), Blame.USER),
        (RuntimeError(PARSE), Blame.USER),
        (KeyError("k"), Blame.USER),
    ],
)
def test_who_is_to_blame(error, blame):
    assert blame_of(error) is blame
    assert blame.passes == (blame in {Blame.CLUSTER, Blame.STORE})


def test_the_cause_of_an_error_counts_where_the_error_is_nobodys():
    made = RuntimeError("writing failed")
    made.__cause__ = RuntimeError(LOST)
    assert blame_of(made) is Blame.CLUSTER


@pytest.mark.parametrize(
    ("said", "kind"), [(LOST, ClusterError), (AWAY, StorageError), (CANCELLED, TimestepError)]
)
def test_what_spark_says_becomes_an_error_without_java_stacks(said, kind):
    made = translate(RuntimeError(said), "users", 5)
    assert type(made) is kind
    assert "'users'" in str(made)
    assert "timestep 5" in str(made)
    assert "DAGScheduler" not in str(made)


def test_an_error_of_the_library_in_a_worker_stays_what_it_is():
    said = f"{ABORTED}x: Traceback\nrechannel.errors.UserFunctionError: operator 'u': no luck\n\tat a.b(C)"
    made = translate(RuntimeError(said), "u", 5)
    assert type(made) is UserFunctionError
    assert str(made) == "operator 'u': no luck"


DAMAGED = (
    f"{ABORTED}x: Traceback\nrechannel.errors.DamagedStateError: outbox/a is damaged\n\tat a.b(C)"
)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (LOST, ClusterError),
        (AWAY, StorageError),
        (OVER, SessionError),
        (DAMAGED, DamagedStateError),
        (PARSE, TimestepError),
    ],
)
def test_what_spark_says_of_a_sinks_job_is_told_by_class_too(said, kind):
    raised = PySparkException(said)
    made = translate_of_sink(raised, "out", 5)
    assert type(made) is kind
    assert made.__cause__ is raised
    assert "DAGScheduler" not in str(made)
    assert kind is SessionError or "sink 'out'" in str(made)


def test_what_a_function_of_the_user_raises_in_a_sink_stays_what_it_is():
    for error in (ValueError("no luck"), ConnectionError("FetchFailed"), StorageError("full")):
        assert translate_of_sink(error, "out", 5) is error


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (LOST, ClusterError),
        (OVER, SessionError),
        (DAMAGED, DamagedStateError),
        (PARSE, UserFunctionError),
    ],
)
def test_what_spark_says_inside_a_function_of_the_user_counts_unless_it_is_a_mistake(said, kind):
    raised = UserFunctionError("write of sink 'out', timestep 5, raised")
    raised.__cause__ = PySparkException(said)
    assert type(translate_of_sink(raised, "out", 5)) is kind


def test_an_error_of_a_sink_whose_jvm_has_died_is_that():
    class Dead(SparkRunner):
        def __init__(self) -> None:
            self.died, self.readers = False, {}

        def gone(self) -> str | None:
            return "Spark's JVM (process 7) has ended" if self.died else None

    runner, raised = Dead(), ValueError("no luck")
    assert runner.meaning(raised, "out", 5) is raised
    runner.died = True
    made = runner.meaning(raised, "out", 5)
    assert type(made) is SessionError
    assert made.__cause__ is raised
    assert runner.meaning(ending := SystemExit(), "out", 5) is ending


def test_what_a_source_knows_of_an_error_of_a_sink_goes_before_what_spark_says():
    class Knowing:
        def explain(self, error: BaseException) -> SourceError | None:
            return SourceError("a.json, line 3") if "MALFORMED" in str(error) else None

    class Alive(SparkRunner):
        def __init__(self) -> None:
            self.readers = {"in": Knowing()}  # type: ignore[dict-item]

        def gone(self) -> str | None:
            return None

    raised = PySparkException("[FAILED_READ_FILE.NO_HINT] reading file a.json. MALFORMED")
    made = Alive().meaning(raised, "out", 5)
    assert (type(made), str(made), made.__cause__) == (SourceError, "a.json, line 3", raised)


def test_one_sentence_has_no_stack_of_any_language():
    assert one_sentence(RuntimeError(LOST)).startswith(
        "org.apache.spark.SparkException: Job aborted"
    )
    assert "\tat" not in one_sentence(RuntimeError(LOST))
    assert one_sentence(ValueError("first\nTraceback ...")) == "first"
    assert one_sentence(ValueError()) == "ValueError"
    assert len(one_sentence(ValueError("x" * 10_000))) <= 500


def test_a_call_that_was_cut_off_is_told():
    assert is_severed(ConnectionRefusedError(111, "Connection refused"))
    made = TimestepError("failed")
    made.__cause__ = RuntimeError("Answer from Java side is empty")
    assert is_severed(made)
    assert is_severed(Py4JError("An error occurred while calling o61.removeJobTag"))
    answered = "An error occurred while calling o61.removeJobTag. Trace:\npy4j.Py4JException: no such method\n"
    assert not is_severed(Py4JError(answered))
    assert not is_severed(ValueError("no luck"))


def test_an_error_that_is_its_own_cause_has_an_end() -> None:
    """`raise error from error`, where what was translated is what was raised."""
    error = TimestepError("Broken pipe")
    error.__cause__ = error
    assert is_severed(error)
    other = ValueError("nothing")
    other.__cause__ = TypeError("of it")
    other.__cause__.__cause__ = other
    assert not is_severed(other)
    assert blame_of(other) is Blame.USER
