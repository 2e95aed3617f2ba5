"""All replies to one operation have a bound in bytes together."""

from rechannel.engine.control.gathered import gathered
from rechannel.kernels.tasks.control import FAILURES_KEPT
from rechannel.kernels.tasks.report import ControlReport, FailedReply

FAILED = FailedReply(operator="counts", task=0, error="it raised")


def report(*sizes: int, failures: int = 0) -> ControlReport:
    replies = {f"operator{n}": "x" * (size - 2) for n, size in enumerate(sizes)}
    return ControlReport(operation="one-1.1", replies=replies, failures=(FAILED,) * failures)


def test_replies_within_the_bound_stay_as_they_are():
    reports = [report(40, 20), report(40, failures=1)]
    assert gathered(enumerate(reports), 100) == tuple(reports)


def test_a_reply_beyond_the_bound_has_failed_and_a_smaller_one_behind_it_stays():
    first, second = gathered([(3, report(60)), (5, report(41, 40))], 100)
    assert first == report(60)
    assert set(second.replies) == {"operator1"}
    (failed,) = second.failures
    assert (failed.operator, failed.task) == ("operator0", 5)
    assert "41 bytes is beyond the 100" in failed.error


def test_failures_stay_few():
    (found,) = gathered([(0, report(101, 102, failures=FAILURES_KEPT))], 100)
    assert found.failures == (FAILED,) * FAILURES_KEPT
    assert found.more == 2
    assert found.replies == {}
