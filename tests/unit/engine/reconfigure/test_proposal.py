"""A change that is only looked at: the channels between operators before and after it."""

from __future__ import annotations

from typing import Any

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.reconfigure.proposal import proposed_change
from rechannel.reconfigure import strategies
from rechannel.reconfigure.edits import change_set
from rechannel.reconfigure.plan import Plan, plan
from rechannel.settings import Settings
from rechannel.testing import Harness, script
from rechannel.testing.process import Process


def started() -> tuple[Any, Process]:
    rows = [[{"k": k, "v": 1} for k in range(9)]] * 2
    stream = rc.read().memory(script("k long, v long", rows), name="in")
    counts = stream.key_by("k").aggregate(n=agg.count(), name="counts")
    process = Harness(counts.write.memory("out", name="out"), settings=Settings(bins=8)).start()
    process.run()
    return counts, process


def planned(process: Process, change: Any) -> Plan:
    """As `RunningJob.plan` makes it."""
    asked, place = change_set(change), process.position
    with proposed_change(asked, process.switch, process.opener, place) as made:
        now = process.changes.view(place)
        state, how = process.changes.coordination, strategies.all_at_once()
        return plan(state, made.change, how, now, 0.0, made.channels)


def test_a_change_of_the_configuration_has_the_channels_of_the_dataflow():
    _, process = started()
    found = planned(process, rc.changes.rescale("counts", 3)).topology
    assert found is not None
    assert [(one.operator, one.upstream, one.upstream_before) for one in found.operators] == [
        ("in", (), ()),
        ("counts", ("in",), ()),
    ]


def test_a_change_of_the_program_has_those_of_both_dataflows():
    counts, process = started()
    tops = counts.key_by("n").aggregate(keys=agg.count(), name="tops")
    made = planned(process, rc.changes.add(tops.write.memory("more", name="more")))
    assert made.topology is not None
    assert made.topology.of("tops").upstream == ("counts",)
    assert list(made.topology.of("tops").new) == [0, 1]
    assert made.topology.of("counts").untouched
    assert "  tasks of tops: 0-1 new" in str(made).splitlines()
    assert not process.switch.busy


def test_what_is_refused_leaves_nothing_open():
    _, process = started()
    with pytest.raises(rc.RechannelError):
        planned(process, rc.changes.remove("nobody"))
    assert not process.switch.busy
