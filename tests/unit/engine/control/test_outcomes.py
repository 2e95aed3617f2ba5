"""What a controller learns of an operation."""

from __future__ import annotations

from rechannel.control import operation
from rechannel.engine.control.outcomes import outcome_of, reply_of
from rechannel.kernels.tasks.report import IN_DRIVER, ControlReport, FailedReply
from tests.unit.kernels.tasks.test_replies import WRONG, Count, Counting

FAILED = FailedReply(operator="counts", task=4, error="it raised")


def report(failures: tuple[FailedReply, ...] = (), more: int = 0, **replies: object):
    return ControlReport(operation="one-1.1", replies=replies, failures=failures, more=more)


def test_replies_of_all_tasks_are_merged():
    reports = [report(a={"rows": 1}, b={"rows": 5}), report((FAILED,), 2, a={"rows": 2})]
    outcome = outcome_of(operation(Counting()), "one-1.1", 7, reports)
    assert (outcome.operation, outcome.timestep) == ("one-1.1", 7)
    assert outcome.replies == {"a": Count(rows=3), "b": Count(rows=5)}
    assert (outcome.failures, outcome.failed) == ((FAILED,), 3)


def test_a_reply_that_cannot_be_read_has_failed():
    """Such as one to a handler whose type was another one before a restart."""
    wrong = report((FAILED,), a=WRONG, b={"rows": 5})
    reply = reply_of(Counting(), 7, wrong)
    assert reply.replies == {"b": Count(rows=5)}
    assert [(f.operator, f.task) for f in reply.failures] == [("counts", 4), ("a", IN_DRIVER)]
    for first, second in ((wrong, report(a={"rows": 1})), (report(a={"rows": 1}), wrong)):
        outcome = outcome_of(operation(Counting()), "one-1.1", 7, [first, second])
        assert outcome.replies == {"a": Count(rows=1), "b": Count(rows=5)}
        assert outcome.failed == len(outcome.failures) == 2
        assert "its reply is no Count" in outcome.failures[1].error


def test_a_reply_that_is_too_large_once_it_is_merged_has_failed():
    class Joining(Counting):
        reply_type = None

        def merge(self, one: str, other: str) -> str:  # type: ignore[override]
            return one + other

    reports = [report(a="x" * 60, b="y")] * 2
    outcome = outcome_of(operation(Joining(), reply_bytes=100), "one-1.1", 7, reports)
    assert outcome.replies == {"b": "yy"}
    assert [f.operator for f in outcome.failures] == ["a"]
    assert "more than 100 bytes" in outcome.failures[0].error
