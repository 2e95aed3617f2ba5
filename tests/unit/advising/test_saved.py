"""A job, while it runs and from what it has left, gives the same advice."""

from __future__ import annotations

import pytest

import rechannel as rc
from rechannel.errors import RefusedError
from rechannel.monitoring import StreamAdvice
from tests.support.advised import scaled
from tests.support.clicks import Clicks


@pytest.fixture
def clicks(tmp_path):
    """A job with a controller that only advises, and has."""
    made = Clicks(directory=tmp_path / "state", out=tmp_path / "out")
    made.start()
    scaled(made, dry_run=True)
    yield made
    made.job_running.stop()


def test_advice_of_a_running_job_and_of_its_state_directory(clicks):
    asked = {"policy": "ds2", "window": 2, "rate": 1e7}
    clicks.job_running.stop()
    running = clicks.job_running.advice(**asked)
    assert running.title == "clicks"
    assert list(running.operators) == ["clicks", "users", "totals"]
    assert running.operators["users"].advised > 2
    assert running.needs.rate == pytest.approx(1e7)
    assert all(each.tasks["users"] == 2 for each in running.needs.windows)
    [controller] = running.controllers
    assert (controller.name, controller.dry_run) == ("scale", True)
    assert controller.decisions
    saved = rc.scaling_advice(clicks.directory, **asked)
    assert isinstance(saved, StreamAdvice)
    assert saved == running


def test_a_job_without_controllers_has_advice_too(clicks):
    clicks.job_running.controllers["scale"].remove()
    made = clicks.job_running.advice(window=2)
    assert made.controllers == ()
    assert made.needs.policy == "ds2-timesteps"
    assert made.needs.cores is not None
    with pytest.raises(RefusedError, match="there is none; give one of"):
        clicks.job_running.advice(policy="magic")


def test_a_job_that_has_done_nothing_has_none(tmp_path):
    made = Clicks(directory=tmp_path / "state", out=tmp_path / "out")
    job = made.start()
    assert job.advice().notes == ("no task was measured yet",)
    job.stop()
    assert rc.scaling_advice(made.directory) == job.advice()


def test_lines_that_are_damaged_are_a_note(clicks):
    clicks.job_running.stop()
    [*_, last] = sorted((clicks.directory / "telemetry").iterdir())
    last.write_bytes(last.read_bytes() + b"{broken\n")
    [note, *_] = rc.scaling_advice(clicks.directory, window=2).notes
    assert note.startswith("telemetry: 1 bad lines are left out, the first: ")
    assert rc.scaling_advice(clicks.directory, window=2).needs is not None
