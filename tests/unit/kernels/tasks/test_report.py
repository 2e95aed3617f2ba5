"""Reports: what a task says of its work, on the way to the driver and there."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

from rechannel.dataflow.graph.naming import DerivedName
from rechannel.kernels.tasks.report import (
    BufferFile,
    Emitted,
    HotKey,
    Judged,
    Sent,
    SparkTask,
    StateReport,
    TaskCosts,
    TaskReport,
)
from rechannel.model.eventtime import Beat, Mark, Times
from rechannel.model.hashspace import Intervals
from rechannel.state.manifest import Edit
from rechannel.state.run import Run
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
    report = TaskReport.from_bytes(reported("in").to_bytes())
    assert report.emitted == Emitted()
    assert report.state is None
    assert len(reported("in").to_bytes()) < 400


def test_values_of_subclasses_arrive_as_what_they_are_made_of():
    costs = replace(COSTS, ms=MappingProxyType({"send": np.float64(1.5)}))
    report = replace(FULL, operator=DerivedName("counts"), costs=costs)
    arrived = TaskReport.from_bytes(report.to_bytes())
    assert arrived == replace(FULL, costs=replace(COSTS, ms={"send": 1.5}))
    assert type(arrived.operator) is str
    with pytest.raises(TypeError, match="a report cannot hold object"):
        replace(FULL, operator=object()).to_bytes()


def test_what_is_no_text_does_not_lose_the_report():
    """An error may name a file whose name is not UTF-8."""
    judged = {"parsed": Judged(rows=2, bad=1, example="no \udcff: x", failed={"a\ud800": 1})}
    report = replace(FULL, emitted=replace(FULL.emitted, judged=judged))
    arrived = TaskReport.from_bytes(report.to_bytes())
    mended = {"parsed": Judged(rows=2, bad=1, example="no ?: x", failed={"a?": 1})}
    assert arrived == replace(FULL, emitted=replace(FULL.emitted, judged=mended))


@pytest.mark.parametrize("data", [b"{}", b"[]", b'{"operator":"counts"}', FULL.to_bytes()[:-9]])
def test_what_is_no_report_is_refused(data):
    with pytest.raises((KeyError, TypeError, ValueError)):
        TaskReport.from_bytes(data)
