"""What other threads see of a driver before its first turn."""

import pytest

import rechannel as rc
from rechannel.engine.loop.driver import Driver
from rechannel.testing import Harness, script


def test_a_restarted_driver_shows_the_configuration_of_the_journal_at_once(
    monkeypatch: pytest.MonkeyPatch,
):
    rows = script("k bigint", [[{"k": 1}]])
    counts = rc.read().memory(rows).key_by("k").aggregate(n=rc.aggregates.count(), name="counts")
    harness = Harness(counts.write.memory("out"))
    process = harness.start()
    process.reconfigure(rc.changes.set_interval(77))
    process.run()
    process.stop()
    monkeypatch.setattr(Driver, "recover", lambda self: None)
    again = harness.start()
    assert again.driver.position.configuration.interval_ms == 77
    assert again.driver.position.timestep == (harness.journal_state().last_intended or 0) + 1
