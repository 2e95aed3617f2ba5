"""All replies and failures in a commit have a bound in bytes together."""

import json

from rechannel.engine.control.gathered import FAILURE_BYTES, gathered
from rechannel.kernels.tasks.control import ERROR_CHARACTERS, FAILURES_KEPT
from rechannel.kernels.tasks.report import ControlReport, FailedReply
from rechannel.model.codec import encode

FAILED = FailedReply(operator="counts", task=0, error="it raised")


def report(*sizes: int, failures: int = 0) -> ControlReport:
    replies = {f"operator{n}": "x" * (size - 2) for n, size in enumerate(sizes)}
    return ControlReport(operation="one-1.1", replies=replies, failures=(FAILED,) * failures)


def test_replies_within_the_bound_stay_as_they_are():
    reports = [report(40, 20), report(40, failures=1)]
    assert gathered(enumerate(reports), replies=100) == tuple(reports)


def test_a_reply_beyond_the_bound_has_failed_and_a_smaller_one_behind_it_stays():
    first, second = gathered([(3, report(60)), (5, report(41, 40))], replies=100)
    assert first == report(60)
    assert set(second.replies) == {"operator1"}
    (failed,) = second.failures
    assert (failed.operator, failed.task) == ("operator0", 5)
    assert "41 bytes is beyond the 100" in failed.error


def test_failures_stay_few():
    (found,) = gathered([(0, report(101, 102, failures=FAILURES_KEPT))], replies=100)
    assert found.failures == (FAILED,) * FAILURES_KEPT
    assert found.more == 2
    assert found.replies == {}


def test_each_operation_of_a_commit_has_an_equal_part():
    reports = [report(40), report(40)]
    assert gathered(enumerate(reports), 1, replies=80) == tuple(reports)
    first, second = gathered(enumerate(reports), 2, replies=80)
    assert first == report(40)
    assert second.replies == {}
    assert "beyond the 40 that" in second.failures[0].error


def test_failures_of_many_tasks_are_counted_beyond_the_bound():
    error = "\N{SNOWMAN}" * ERROR_CHARACTERS
    failed = (FailedReply(operator="counts", task=0, error=error),) * FAILURES_KEPT
    reports = [ControlReport(operation="one-1.1", failures=failed, more=1)] * 8_192
    for operations in (1, 10):
        found = gathered(enumerate(reports), operations)
        kept = sum(len(each.failures) for each in found)
        assert 0 < kept < 200
        assert kept + sum(each.more for each in found) == 8_192 * (FAILURES_KEPT + 1)
        size = sum(len(json.dumps(encode(each.failures))) for each in found if each.failures)
        assert size <= 1.01 * FAILURE_BYTES // operations
