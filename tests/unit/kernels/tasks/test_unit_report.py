"""The reports of the tasks of one operator."""

import pytest

from rechannel.errors import TimestepError
from rechannel.kernels.tasks.unit_report import by_operator
from tests.support.reports import reported


def test_reports_are_told_by_operator():
    found = by_operator([reported("in"), reported("in", 1), reported("totals")])
    assert [(each.operator, each.tasks) for each in found] == [("in", 2), ("totals", 1)]


def test_a_task_that_reports_twice_fails_the_timestep():
    with pytest.raises(TimestepError, match="operator 'in', timestep 1: task 1 has reported twice"):
        by_operator([reported("in"), reported("in", 1), reported("in", 1)])
