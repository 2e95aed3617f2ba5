"""The dataflow's nodes, and what went between them."""

from __future__ import annotations

import pytest

from rechannel.errors import SetUpError
from rechannel.monitoring import CriticalPath, DataflowNode
from rechannel.profiling.job.shares import CriticalShares
from rechannel.running import flowing
from rechannel.running.flowing import MOST_TIMESTEPS, NO_TIMESTEP, flow_of, nodes_of
from rechannel.telemetry.recent_tasks import recent_tasks
from rechannel.telemetry.task_finished import Sent
from tests.unit.telemetry.test_recent_tasks import begun, done, task

IDENTITY = {
    "counts": {"kind": "aggregate", "upstreams": ["orders"], "keys": ["window_start", "item"], "digest": "d"},
    "orders": {"kind": "source", "upstreams": [], "digest": "d"},
    "all": {"kind": "union", "upstreams": ["counts", "orders"], "digest": "d"},
}  # fmt: skip


def run(timestep, rows, began):
    sent = Sent(operator="counts", input=0, offered=rows, rows=rows, keys=1, bytes=8)
    tasks = [task(timestep, "orders", began=began, sent=(sent,)), task(timestep, began=began + 5)]
    return [begun(timestep), *tasks, done(timestep)]


def shares(monkeypatch, found):
    """Have the profiler find this, or raise it."""

    def shares_of(events, *, most):
        assert most == MOST_TIMESTEPS
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(flowing, "shares_of", shares_of)


def test_nodes_come_after_their_upstreams_whatever_the_order_of_the_journal():
    assert nodes_of({"identity": IDENTITY}) == (
        DataflowNode(name="orders", kind="source", upstreams=()),
        DataflowNode(name="counts", kind="aggregate", upstreams=("orders",), keys=("item",)),
        DataflowNode(name="all", kind="union", upstreams=("counts", "orders")),
    )
    assert nodes_of({}) == ()


def test_rows_are_summed_over_the_latest_timesteps(monkeypatch):
    shares(monkeypatch, None)
    events = [each for number in range(1, 31) for each in run(number, number, 100.0 * number)]
    found = flow_of(recent_tasks(events), events)
    assert (found.first, found.last) == (11, 30)
    assert found.rows == {"orders": {"counts": sum(range(11, 31))}}
    assert found.seconds == pytest.approx((3_000 + 10 - 1_100) / 1e3)


def test_nothing_is_known_before_the_first_timestep(monkeypatch):
    shares(monkeypatch, None)
    found = flow_of([], [])
    assert (found.first, found.last, found.seconds, found.rows) == (None, None, 0.0, {})
    assert (found.critical, found.unknown) == (None, NO_TIMESTEP)


def test_the_critical_path_names_the_task_that_takes_most_of_it(monkeypatch):
    tasks = {"counts": {0: 0.1, 1: 0.4}, "orders": {}}
    made = CriticalShares(
        first=3, last=9, timesteps=6, mean_ms=12.34567, kinds={"process": 0.123456},
        operators={"counts": 0.5}, tasks=tasks,
    )  # fmt: skip
    shares(monkeypatch, made)
    assert flow_of([], []).critical == CriticalPath(
        first=3, last=9, timesteps=6, mean_ms=12.346, kinds={"process": 0.1235},
        operators={"counts": 0.5}, tasks={"counts": 1},
    )  # fmt: skip


def test_without_the_profiler_it_says_what_to_install(monkeypatch):
    shares(monkeypatch, SetUpError("pip install 'rechannel[profile]'"))
    found = flow_of([], [])
    assert (found.critical, found.unknown) == (None, "pip install 'rechannel[profile]'")
