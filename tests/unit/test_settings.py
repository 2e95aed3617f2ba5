import logging
from dataclasses import replace
from pathlib import Path

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.job import InProcess, Job
from rechannel.model.configuration import Configuration
from rechannel.testing import script


def run_once(state: Path, settings: rc.Settings) -> int:
    """Start a job, run what there is, stop; the interval that it ran by."""
    rows = script("user STRING")
    counts = (
        rc.read().memory(rows, name="rows").key_by("user").aggregate(n=agg.count(), name="counts")
    )
    job = Job("counts", counts.write.memory("out"), state=state, settings=settings)
    running = job.start(in_process=InProcess())
    rows.push([{"user": "ann"}])
    running.process_all_available()
    interval = running.configuration.interval_ms
    running.stop()
    return interval


def test_a_restart_keeps_the_interval_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING, "rechannel")
    begun, other = rc.Settings(tasks=1, interval_ms=3), rc.Settings(tasks=1, interval_ms=7)
    assert run_once(tmp_path, begun) == 3
    assert run_once(tmp_path, begun) == 3
    assert caplog.messages == []
    assert run_once(tmp_path, other) == 3
    (told,) = caplog.messages
    assert "interval_ms stays 3" in told
    assert "job.reconfigure(rc.changes.set_interval(7))" in told


def test_what_a_stream_does_as_the_settings_say_is_not_told():
    settings = rc.Settings(interval_ms=5, in_flight=2)
    held = Configuration(operators={}, interval_ms=5, in_flight=1)
    assert settings.unheeded(replace(held, in_flight=2)) == []
    assert [text.split()[0] for text in settings.unheeded(held)] == ["in_flight"]
