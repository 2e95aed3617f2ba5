"""Reports: what a task says of its work, on the way to the driver and there."""

from __future__ import annotations

import pytest

from rechannel.kernels.tasks.report import (
    BufferFile,
    HotKey,
    Sent,
    SparkTask,
    StateReport,
    TaskCosts,
    TaskReport,
)
from rechannel.model.eventtime import Beat, Mark, Times
from rechannel.model.hashspace import Intervals
from rechannel.state.manifest import Edit, Run
from tests.support.reports import reported

RUN = Run(
    segment="segments/counts/7-0.arrow",
    clip=Intervals.everything(),
    seq=3,
    level=0,
    rows=1,
    size=2,
    span=4,
)
STATE = StateReport(
    edit=Edit(retire=(((1, 2), Intervals(((0, 2**63),))),), add=(RUN,)),
    times=Times(watermark=5, marks={"a": Mark(latest=6)}, beat=Beat(stream_ms=1)),
    bins="eJw=",
    hot_keys=(HotKey(hash=2**64 - 1, rows=5),),
    first_timers={"segments/counts/7-0.arrow": 9},
)
COSTS = TaskCosts(
    host="h", pid=3, started_ms=1.5, finished_ms=2.5, cpu_ms=0, ms={"send": 1}, counts={"runs": 1}
)
FULL = TaskReport(
    operator="counts",
    timestep=7,
    task=1,
    attempt="a",
    costs=COSTS,
    emitted=reported(
        "counts",
        sent=(Sent(operator="top", input=1, offered=9, rows=4, keys=3, bytes=100),),
        buffered={"counts": BufferFile(key="outbox/counts", rows=1, bytes=2)},
        event_times={"clicks": -(2**63)},
    ).emitted,
    state=STATE,
    spark=SparkTask(stage=3, task=40),
)


@pytest.mark.parametrize("report", [FULL, reported("in"), reported("in", state=STATE)])
def test_a_report_is_read_as_it_was_written(report):
    assert TaskReport.from_bytes(report.to_bytes()) == report


def test_a_report_of_nothing_is_short():
    assert set(TaskReport.from_bytes(reported("in").to_bytes()).emitted.sent) == set()
    assert b"emitted" not in reported("in").to_bytes()


@pytest.mark.parametrize("data", [b"{}", b"[]", b'{"operator":"counts"}', FULL.to_bytes()[:-9]])
def test_what_is_no_report_is_refused(data):
    with pytest.raises((KeyError, TypeError, ValueError)):
        TaskReport.from_bytes(data)
