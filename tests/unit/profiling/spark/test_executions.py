"""Executions of Spark SQL, and what is kept of them."""

import pytest

from rechannel.profiling.spark import executions
from rechannel.profiling.spark.executions import Executions
from rechannel.profiling.spark.sql_events import DriverMetrics, PlanNode, SqlEnded, SqlStarted


@pytest.fixture
def room(monkeypatch):
    monkeypatch.setattr(executions, "ROOM", 20)


def measured(number, first, count):
    return DriverMetrics(execution=number, values=[(first + n, n) for n in range(count)])


@pytest.mark.usefixtures("room")
def test_values_of_metrics_take_room_and_go_with_their_plan():
    found = Executions()
    for number in range(10):
        found.see(SqlStarted(execution=number, time=1, plan=PlanNode(name="A")))
        found.see(measured(number, 0, 8))
        found.see(SqlEnded(execution=number, time=2 + number))
    kept = [number for number, each in found.known.items() if each.metrics]
    assert kept == [8, 9]
    assert kept == [number for number, each in found.known.items() if each.plan is not None]
    # What comes late finds no plan that names it.
    found.see(measured(0, 0, 3))
    assert found.known[0].metrics == {}


@pytest.mark.usefixtures("room")
def test_one_execution_takes_no_more_than_there_is():
    found = Executions()
    found.see(SqlStarted(execution=1, time=1, plan=PlanNode(name="A")))
    for first in range(0, 100, 5):
        found.see(measured(1, first, 5))
    assert len(found.known[1].metrics) == 15
    # The same metrics again take nothing.
    found.see(measured(1, 0, 4))
    assert found.known[1].metrics[3] == 3


def test_later_values_of_a_metric_count():
    found = Executions()
    found.see(SqlStarted(execution=1, time=1, plan=PlanNode(name="A")))
    for value in (5, 7):
        found.see(DriverMetrics(execution=1, values=[(3, value)]))
    assert found.known[1].metrics == {3: 7}
