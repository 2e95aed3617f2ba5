"""Which units the driver's own thread runs."""

from __future__ import annotations

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.loop.core import step as core
from rechannel.engine.loop.core.commands import StartUnits
from rechannel.settings import Settings
from rechannel.testing import Harness, script

ROWS = [[{"k": f"k{n}"}] for n in range(4)]


@pytest.mark.parametrize("rows", [0, 10])
def test_a_unit_on_spark_has_a_thread_of_its_own(rows, monkeypatch):
    """The driver asks for executors, which such a unit may wait for."""
    alone = list[bool]()
    start = core._STEPS[core.Start]

    def seen(state, event):
        state, commands = start(state, event)
        alone.extend(each.alone for each in commands if isinstance(each, StartUnits))
        return state, commands

    monkeypatch.setattr(core, "_STEPS", {**core._STEPS, core.Start: seen})
    read = rc.read().memory(script("k STRING", ROWS), name="in")
    totals = read.key_by("k").aggregate(n=agg.count(), name="totals")
    Harness(totals.write.memory("out"), settings=Settings(inline_rows=rows)).start().run()
    assert any(alone) is (rows > 0)
    assert len(alone) >= len(ROWS)
